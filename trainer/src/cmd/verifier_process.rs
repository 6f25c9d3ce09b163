//! A `rapid-verifier` that runs for as long as its owner does.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use trainer::config;

const NAME: &str = "rapid-verifier";
/// It listens before it prepares its graders, so this is generous.
const PATIENCE: Duration = Duration::from_secs(60);

/// The process. Dropped, it is killed; where we end without dropping anything, it ends with its stdin, whose other end is ours. It has a
/// process group of its own, so that a terminal's Ctrl-C reaches us alone: training may still need verdicts to come to a safe point.
pub(crate) struct VerifierProcess {
    /// Holds our end of its stdin.
    _child: Child,
    url: String,
}

impl VerifierProcess {
    /// The program: beside this one, else on the PATH.
    pub(crate) fn program() -> anyhow::Result<PathBuf> {
        let name = format!("{NAME}{}", std::env::consts::EXE_SUFFIX);
        let beside = std::env::current_exe()
            .ok()
            .and_then(|own| Some(own.parent()?.join(&name)));
        let on_path = std::env::var_os("PATH").unwrap_or_default();
        beside
            .into_iter()
            .chain(std::env::split_paths(&on_path).map(|folder| folder.join(&name)))
            .find(|program| program.is_file())
            .with_context(|| format!("{NAME} is neither beside rapid nor on the PATH; build it with cargo build --release -p verifier"))
    }

    /// Starts it on a free port of this machine; what it says goes to `log`.
    /// It judges as the recipe expects, and mathematics alone: preparing the sandbox for programs would take a gigabyte and minutes of the processors that training needs.
    pub(crate) async fn start(
        program: &Path,
        log: &Path,
        recipe: &config::Verifier,
    ) -> anyhow::Result<Self> {
        let errors =
            File::create(log).with_context(|| format!("{} cannot be written", log.display()))?;
        let mut command = Command::new(program);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--until-stdin-ends"])
            .args(["--set", "code.sandbox=none"])
            .args(expected("--math-policy", recipe.math_policy.as_ref()))
            .args(expected(
                "--math-extraction",
                recipe.math_extraction.as_ref(),
            ))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let stdout = child
            .stdout
            .take()
            .context("the verifier was started without a stdout")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line())
            .await
            .with_context(|| {
                format!(
                    "{NAME} did not say where it listens within {} s; see {}",
                    PATIENCE.as_secs(),
                    log.display()
                )
            })?;
        let Some(url) = line
            .ok()
            .flatten()
            .and_then(|line| line.strip_prefix("listening on ").map(str::to_owned))
        else {
            bail!("{NAME} ended before it listened: {}", last_words(log));
        };
        // Whatever else it may print must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { _child: child, url })
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

/// The option, where the recipe names its value.
fn expected(flag: &str, value: Option<&String>) -> Vec<String> {
    value.map_or_else(Vec::new, |value| vec![flag.to_owned(), value.clone()])
}

/// The last line of a log, for an error.
fn last_words(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    match text.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => line.to_owned(),
        None => format!("it said nothing; its log is {}", log.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn start(program: &Path, log: &Path) -> anyhow::Result<VerifierProcess> {
        VerifierProcess::start(program, log, &config::Verifier::default()).await
    }

    #[cfg(unix)]
    fn script(folder: &Path, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = folder.join("program");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn its_address_is_read_from_its_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let program = script(
            folder.path(),
            "echo listening on http://127.0.0.1:4711; exec sleep 60",
        );
        let process = start(&program, &folder.path().join("log")).await.unwrap();
        assert_eq!(process.url(), "http://127.0.0.1:4711");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn it_is_started_with_what_the_recipe_expects() {
        let folder = tempfile::tempdir().unwrap();
        let (log, asked) = (folder.path().join("log"), folder.path().join("asked"));
        let text = format!(
            "echo \"$@\" > {}; echo listening on http://127.0.0.1:4711; exec sleep 60",
            asked.display()
        );
        let program = script(folder.path(), &text);
        let recipe = config::load("quickstart", &[]).unwrap().verifier;
        let _process = VerifierProcess::start(&program, &log, &recipe)
            .await
            .unwrap();
        let asked = std::fs::read_to_string(asked).unwrap();
        assert!(
            asked.ends_with(" --math-policy standard --math-extraction boxed\n"),
            "{asked}"
        );
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn its_stdin_stays_open_for_as_long_as_its_owner_does() {
        let folder = tempfile::tempdir().unwrap();
        let ended = folder.path().join("ended");
        let text = format!(
            "echo listening on http://127.0.0.1:4711; cat; touch {}",
            ended.display()
        );
        let program = script(folder.path(), &text);
        let mut process = start(&program, &folder.path().join("log")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!ended.exists());
        // What the system does to our end of the pipe when we end in whatever way.
        drop(process._child.stdin.take());
        process._child.wait().await.unwrap();
        assert!(ended.exists());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn one_that_ends_at_once_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let program = script(folder.path(), "echo the port is taken >&2; exit 1");
        let Err(error) = start(&program, &folder.path().join("log")).await else {
            panic!("a verifier that does not listen was taken for one that does");
        };
        assert!(error.to_string().contains("the port is taken"), "{error}");
    }
}
