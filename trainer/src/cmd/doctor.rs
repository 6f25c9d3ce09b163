//! `rapid doctor`: what works on this machine, what does not, and what to do about it.

mod gpu;
mod machine;
mod model;
mod services;

use std::fmt::Write as _;

use anyhow::bail;
use serde::Serialize;

use super::args::DeviceArgs;

/// Check this machine, and print how to fix each failed check
///
/// Checks the processor, GPU, memory, cache folder, artifacts, verifier and model. Prints one line per check, with a remedy where one is needed; exits with 1 if a check fails.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rapid doctor
  rapid doctor --verifier http://127.0.0.1:8700
  rapid doctor --model smollm2-135m-instruct
  rapid doctor --device cuda:0")]
pub(crate) struct Args {
    /// Load this model, generate with it, and check that sampling and training compute the same probabilities
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Ask this verifier what it can judge
    #[arg(long, value_name = "URL", env = "RAPID_VERIFIER")]
    verifier: Option<String>,
    /// Print the checks as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Works, but with restrictions.
    Warn,
    Fail,
}

/// A line of the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Check {
    state: State,
    what: String,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Check {
    fn ok(what: &str, found: impl Into<String>) -> Self {
        Self {
            state: State::Ok,
            what: what.into(),
            found: found.into(),
            remedy: None,
        }
    }

    fn warn(what: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            state: State::Warn,
            what: what.into(),
            found: found.into(),
            remedy: Some(remedy.into()),
        }
    }

    fn fail(what: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            state: State::Fail,
            what: what.into(),
            found: found.into(),
            remedy: Some(remedy.into()),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut checks = machine::checks(&args.device);
    checks.extend(gpu::checks(&args.device));
    checks.extend(services::artifacts());
    if let Some(url) = &args.verifier {
        checks.extend(super::block_on(async {
            Ok(services::verifier(url).await)
        })?);
    }
    if let Some(name) = &args.model {
        checks.extend(model::checks(name, &args.device));
    }
    if args.json {
        super::print(&(serde_json::to_string_pretty(&checks)? + "\n"))?;
    } else {
        super::print(&text(&checks))?;
    }
    match checks
        .iter()
        .filter(|check| check.state == State::Fail)
        .count()
    {
        0 => Ok(()),
        1 => bail!("a check failed; its line says what to do"),
        failed => bail!("{failed} checks failed; their lines say what to do"),
    }
}

fn text(checks: &[Check]) -> String {
    let width = checks
        .iter()
        .map(|check| check.what.chars().count())
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    for check in checks {
        let state = match check.state {
            State::Ok => "ok  ",
            State::Warn => "warn",
            State::Fail => "FAIL",
        };
        let _ = writeln!(out, "{state}  {:<width$}  {}", check.what, check.found);
        if let Some(remedy) = &check.remedy {
            let _ = writeln!(out, "      {:<width$}  → {remedy}", "");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_states_the_result_and_the_remedy() {
        let checks = [
            Check::ok("memory", "15.2 GiB free of 16.0"),
            Check::warn(
                "sandbox:python-wasi",
                "not fetched",
                "rapid fetch sandbox:python-wasi",
            ),
            Check::fail(
                "verifier",
                "connection refused",
                "start one with rapid-verifier serve",
            ),
        ];
        insta::assert_snapshot!(text(&checks));
    }
}
