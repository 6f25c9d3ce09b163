//! The sandbox under test.

use std::process::Command;

use sandboxes::docker::{DockerSandbox, Settings};
use sandboxes::{Sandbox, SandboxError};

/// Settings with few containers, since each test has its own. `RAPID_TEST_RUNTIME` names a runtime other than the engine's own.
pub(crate) fn settings() -> Settings {
    Settings {
        containers: 3,
        runtime: std::env::var("RAPID_TEST_RUNTIME").ok(),
        ..Settings::default()
    }
}

/// Opens a sandbox, or prints that the test is skipped and returns `None`.
pub(crate) fn open(settings: &Settings) -> Option<DockerSandbox> {
    match DockerSandbox::open(settings) {
        Ok(sandbox) => Some(sandbox),
        Err(SandboxError::Unusable(why)) if !required() => {
            skipped(&why);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn shared() -> Option<Box<dyn Sandbox>> {
    Some(Box::new(open(&settings())?))
}

/// The output of the engine's command line tool; `None` after printing that the test is skipped.
pub(crate) fn docker(arguments: &[&str]) -> Option<String> {
    let output = match Command::new("docker").args(arguments).output() {
        Ok(output) => output,
        Err(error) if !required() => {
            skipped(&format!("the docker command cannot be run ({error})"));
            return None;
        }
        Err(error) => panic!("docker: {error}"),
    };
    assert!(output.status.success(), "docker {arguments:?}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

fn required() -> bool {
    std::env::var("RAPID_TEST_DOCKER").is_ok_and(|value| value == "required")
}

fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("SKIPPED: {test}: {why}");
}
