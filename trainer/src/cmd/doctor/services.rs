//! Checks of the fetched artifacts, of what fetching needs, and of the verifier.

use std::process::{Command, Stdio};

use datasets::fetch::{self, ArtifactKind};
use trainer::config::Verifier;
use verifier_api::{Client, ClientError, GraderState};

use super::Check;
use crate::cmd::verifier_process::VerifierProcess;

/// The artifacts that `rapid quickstart` uses.
const QUICKSTART: [(ArtifactKind, &str); 2] = [
    (ArtifactKind::Model, "smollm2-135m-instruct"),
    (ArtifactKind::Sandbox, "python-wasi"),
];

pub(super) fn artifacts() -> Vec<Check> {
    let mut checks: Vec<Check> = QUICKSTART
        .iter()
        .map(|(kind, name)| {
            let what = format!("{}:{name}", kind.word());
            match fetch::locate(*kind, name) {
                Some(folder) => Check::ok(&what, folder.display().to_string()),
                None => Check::warn(
                    &what,
                    "not fetched",
                    format!("rapid quickstart fetches it, and so does rapid fetch {what}"),
                ),
            }
        })
        .collect();
    checks.push(pip());
    checks.push(match VerifierProcess::program() {
        Ok(program) => Check::ok("rapid-verifier", program.display().to_string()),
        Err(error) => Check::warn(
            "rapid-verifier",
            error.to_string(),
            "rapid quickstart needs it here; a verifier elsewhere needs only its URL",
        ),
    });
    checks
}

/// Some artifacts can come as Python wheels where the hub cannot be reached.
fn pip() -> Check {
    let output = Command::new("python3")
        .args(["-m", "pip", "--version"])
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => Check::ok("pip", "python3 -m pip runs"),
        _ => Check::warn(
            "pip",
            "python3 -m pip does not run",
            "on Debian: apt install python3-pip; it is needed only to fetch artifacts that come as wheels",
        ),
    }
}

/// A line for the verifier and one for each of its graders.
pub(super) async fn verifier(url: &str) -> Vec<Check> {
    answers(url).await.unwrap_or_else(|failed| vec![failed])
}

async fn answers(url: &str) -> Result<Vec<Check>, Check> {
    let failed = |remedy: &'static str| {
        move |error: ClientError| Check::fail("verifier", error.to_string(), remedy)
    };
    let asks_for_token = |error: &ClientError| matches!(error, ClientError::Refused { problem, .. } if problem.status == 401);
    let client = Client::new(url, Verifier::default().token())
        .map_err(failed("give its address, such as http://127.0.0.1:8700"))?;
    let readiness = client.ready().await.map_err(failed(
        "start one with rapid-verifier serve, and give the address that it prints",
    ))?;
    let mut checks = vec![match client.info().await {
        Ok(info) => Check::ok(
            "verifier",
            format!(
                "{} {} at {url}, {} data sets",
                info.service,
                info.version,
                info.datasets.len()
            ),
        ),
        Err(error) if asks_for_token(&error) => Check::fail(
            "verifier",
            error.to_string(),
            "set RAPID_VERIFIER_TOKEN to the verifier's token",
        ),
        Err(error) => Check::warn(
            "verifier",
            error.to_string(),
            "it judges, but does not state its version; versions may not match",
        ),
    }];
    for grader in readiness.graders {
        let what = format!("verifier, {}", grader.name);
        let reason = grader.reason.unwrap_or_default();
        checks.push(match grader.state {
            GraderState::Ready => Check::ok(&what, format!("ready, version {}", grader.version)),
            GraderState::Preparing => Check::warn(&what, "preparing", "ask again in a minute"),
            GraderState::Unavailable if grader.required => Check::fail(
                &what,
                reason,
                "fix it on the verifier's machine: rapid-verifier doctor says how",
            ),
            GraderState::Unavailable => Check::warn(
                &what,
                reason,
                "the verifier cannot judge tasks of this kind",
            ),
        });
    }
    Ok(checks)
}
