//! `rapid-verifier doctor`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;
use verifier::config::SandboxKind;
use verifier::graders;
use verifier::judging::DiskStores;
use verifier::registry::Registry;
use verifier::setup;
use verifier_api::{GraderInfo, GraderState};

use super::{ConfigArgs, prepared_judge, print_result};

/// Check this machine, and print how to fix each failed check
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rapid-verifier doctor
  rapid-verifier doctor --json
  rapid-verifier doctor --set code.sandbox=docker
  rapid-verifier doctor --set lean.project=sandboxes/lean
  rapid-verifier doctor --config verifier.toml           with graders of your own, which it starts

Exits with 0 if math and code can be judged, and proofs if Lean is configured; with 1 if not, or if a configured data set cannot be read.")]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print the checks as JSON
    #[arg(long)]
    json: bool,
}

/// The result of a check; `rapid doctor` uses the same words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Works, but something will not.
    Warn,
    Fail,
}

/// One line of the output.
#[derive(Debug, Serialize)]
struct Check {
    state: State,
    what: String,
    /// What was found, with a remedy unless it is ok.
    found: String,
}

impl Check {
    fn new(state: State, what: &str, found: impl Into<String>) -> Self {
        Self {
            state,
            what: what.to_owned(),
            found: found.into(),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.config.resolve()?;
    let mut checks = vec![cache(&config)];

    checks.push(
        match Registry::open(&config.datasets, config.data_dir.as_deref()) {
            Ok(registry) => {
                let sets = registry.datasets().into_iter();
                let names: Vec<String> = sets
                    .map(|set| format!("{} ({} + {})", set.name, set.train, set.eval))
                    .collect();
                Check::new(State::Ok, "data sets", names.join(", "))
            }
            Err(error) => Check::new(State::Fail, "data sets", error.to_string()),
        },
    );
    if config.code.sandbox == SandboxKind::Wasm {
        let folders = setup::wasm_folders(&config);
        checks.push(match &folders.artifact_dir {
            Some(dir) => Check::new(State::Ok, "sandbox artifact", dir.display().to_string()),
            // The compiled module may still be cached; the grader's check shows that.
            None => Check::new(State::Warn, "sandbox artifact", "not on this machine: `rapid-verifier fetch` fetches it, --sandbox-dir names a folder that holds it"),
        });
    }
    let started = Instant::now();
    let judge = prepared_judge(&config, Registry::default(), DiskStores::default())?;
    let seconds = started.elapsed().as_secs_f64();
    // Lean is checked only if it is configured.
    let lean = config.lean.project.is_some() || !config.lean.command.is_empty();
    for grader in &judge.readiness().graders {
        checks.push(match judge.graders.try_out(&grader.name) {
            Ok(()) => state(grader, lean || grader.name != "lean", seconds),
            Err(reason) => Check::new(State::Fail, &format!("grader {}", grader.name), reason),
        });
    }

    print_result(args.json, &checks, || format_checks(&checks))?;
    Ok(if checks.iter().any(|check| check.state == State::Fail) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn format_checks(checks: &[Check]) -> String {
    let widths = checks.iter().map(|check| check.what.chars().count());
    let width = widths.max().unwrap_or(0);
    let mut out = String::new();
    for check in checks {
        let state = match check.state {
            State::Ok => "ok  ",
            State::Warn => "warn",
            State::Fail => "FAIL",
        };
        let _ = writeln!(out, "{state}  {:<width$}  {}", check.what, check.found);
    }
    out
}

fn cache(config: &verifier::config::Config) -> Check {
    let dir = setup::cache_dir(config);
    let tried = std::fs::create_dir_all(&dir)
        .and_then(|()| tempfile::tempfile_in(&dir))
        .and_then(|mut file| file.write_all(b"probe"));
    match tried {
        Ok(()) => Check::new(State::Ok, "cache folder", dir.display().to_string()),
        // Verdicts are then stored in memory only.
        Err(error) => Check::new(
            State::Warn,
            "cache folder",
            format!(
                "{} cannot be written ({error}): free some space, or give --cache-dir or RAPID_HOME",
                dir.display()
            ),
        ),
    }
}

/// The check of a grader. A grader that is not `needed` may be unavailable.
fn state(grader: &GraderInfo, needed: bool, seconds: f64) -> Check {
    let what = format!("grader {}", grader.name);
    match grader.state {
        GraderState::Ready => {
            let interpreter = grader
                .interpreter
                .as_ref()
                .map(|interpreter| format!(", {interpreter}, ready after {seconds:.1} s"))
                .unwrap_or_default();
            Check::new(
                State::Ok,
                &what,
                match graders::NAMES.contains(&grader.name.as_str()) {
                    true => format!(
                        "{} judged a right and a wrong sample as it should{interpreter}",
                        grader.version
                    ),
                    false => "it starts; it is first asked for the first item".to_owned(),
                },
            )
        }
        GraderState::Preparing | GraderState::Unavailable => {
            let state = if needed { State::Fail } else { State::Warn };
            Check::new(state, &what, grader.reason.clone().unwrap_or_default())
        }
    }
}
