//! `rapid-verifier doctor`.

use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;
use verifier::config::SandboxKind;
use verifier::registry::Registry;
use verifier::setup;
use verifier_api::{GraderInfo, GraderState};

use super::{ConfigArgs, prepare, print};

/// Say what works here, and what to do about the rest
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rapid-verifier doctor
  rapid-verifier doctor --json
  rapid-verifier doctor --set code.sandbox=docker
  rapid-verifier doctor --set lean.project=sandboxes/lean

Exits 0 where math and code can be judged, and proofs where Lean is configured; 1 where not.")]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print one JSON object instead of lines
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    works: bool,
    /// What was found, or the remedy.
    detail: String,
}

fn finding(what: &str, works: bool, detail: impl Into<String>) -> Finding {
    Finding {
        what: what.to_owned(),
        works,
        detail: detail.into(),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.config.resolve()?;
    let mut findings = vec![cache(&config)];

    match Registry::open(&config.datasets, config.data_dir.as_deref()) {
        Ok(registry) => {
            let names: Vec<String> = registry
                .datasets()
                .iter()
                .map(|set| format!("{} ({} + {})", set.name, set.train, set.eval))
                .collect();
            findings.push(finding("data sets", true, names.join(", ")));
        }
        Err(error) => findings.push(finding("data sets", false, error.to_string())),
    }

    if config.code.sandbox == SandboxKind::Wasm {
        let place = setup::wasm_place(&config);
        findings.push(match &place.artifact_dir {
            Some(dir) => finding("sandbox artifact", true, dir.display().to_string()),
            None => finding("sandbox artifact", false, "not on this machine: `rapid-verifier fetch` fetches it, --sandbox-dir names a folder that holds it"),
        });
    }
    let (service, open) = setup::with_registry(&config, None, Registry::default(), None)?;
    let started = Instant::now();
    service.prepare(prepare::apart(&config, open));
    let seconds = started.elapsed().as_secs_f64();
    let graders = service.readiness().graders;
    for grader in &graders {
        findings.push(state(grader, seconds));
    }

    let mut out = String::new();
    if args.json {
        out = serde_json::to_string_pretty(&findings)? + "\n";
    } else {
        for Finding {
            what,
            works,
            detail,
        } in &findings
        {
            let state = if *works { "ok     " } else { "missing" };
            out += &format!("{state} {what}: {detail}\n");
        }
    }
    print(&out)?;
    // Lean is for those who have set it up.
    let lean = config.lean.project.is_some() || !config.lean.command.is_empty();
    let usable = graders
        .iter()
        .filter(|grader| lean || grader.name != "lean")
        .all(|grader| grader.state == GraderState::Ready);
    Ok(if usable {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn cache(config: &verifier::config::Config) -> Finding {
    let dir = setup::cache_dir(config);
    let tried = std::fs::create_dir_all(&dir).and_then(|()| {
        let probe = dir.join(format!(".doctor-{}", std::process::id()));
        let written = std::fs::write(&probe, b"probe");
        std::fs::remove_file(probe).and(written)
    });
    match tried {
        Ok(()) => finding("cache folder", true, dir.display().to_string()),
        Err(error) => finding(
            "cache folder",
            false,
            format!(
                "{} cannot be written ({error}): free some space, or give --cache-dir or RAPID_HOME",
                dir.display()
            ),
        ),
    }
}

fn state(grader: &GraderInfo, seconds: f64) -> Finding {
    let what = format!("grader {}", grader.name);
    match grader.state {
        GraderState::Ready => {
            let interpreter = grader
                .interpreter
                .as_ref()
                .map(|interpreter| format!(", {interpreter}, ready after {seconds:.1} s"))
                .unwrap_or_default();
            finding(
                &what,
                true,
                format!(
                    "{} judged a right and a wrong sample as it should{interpreter}",
                    grader.version
                ),
            )
        }
        GraderState::Preparing | GraderState::Unavailable => {
            finding(&what, false, grader.reason.clone().unwrap_or_default())
        }
    }
}
