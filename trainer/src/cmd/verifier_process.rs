//! A `rapid-verifier` process that ends with its owner.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use datasets::fetch::{self, ArtifactKind};
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use trainer::config;
use trainer::reward::RewardError;
use trainer::stderr::say;

const NAME: &str = "rapid-verifier";
/// The interpreter of programs.
pub(crate) const SANDBOX: &str = "python-wasi";
/// The environment variable with the token that the verifier's clients must send.
const TOKEN: &str = "RAPID_VERIFIER_TOKEN";
/// Time limit until it listens. It listens before it prepares its graders, so this is generous.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The process. It is killed when this is dropped. If this process ends without a drop, its end of the verifier's stdin closes, and the verifier ends at the end of
/// its stdin. It has its own process group, so that a terminal's Ctrl-C reaches only this process: training may still need verdicts to reach a safe point.
pub(crate) struct VerifierProcess {
    /// Holds this process's end of the verifier's stdin.
    _child: Child,
    url: String,
}

impl VerifierProcess {
    /// The program: beside this one, else on the PATH.
    pub(crate) fn program() -> anyhow::Result<PathBuf> {
        let name = format!("{NAME}{}", std::env::consts::EXE_SUFFIX);
        let sibling = std::env::current_exe()
            .ok()
            .and_then(|own| Some(own.parent()?.join(&name)));
        let on_path = std::env::var_os("PATH").unwrap_or_default();
        sibling
            .into_iter()
            .chain(std::env::split_paths(&on_path).map(|folder| folder.join(&name)))
            .find(|program| program.is_file())
            .with_context(|| format!("{NAME} is neither beside rapid nor on the PATH; build it with cargo build --release -p verifier"))
    }

    /// Starts one for a command that was given no verifier, to judge tasks of these `kinds`. The interpreter of programs is fetched if it is needed and missing.
    /// It logs to `verifier.log` in the folder `run`, which is created; without one, to a new temporary file, which stays.
    pub(crate) async fn of_command(
        recipe: &config::Verifier,
        kinds: &BTreeSet<String>,
        data_dir: Option<&Path>,
        run: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let program = Self::program().context(RewardError::NoUrl)?;
        let runs_code = kinds.contains("code");
        if runs_code && fetch::locate(ArtifactKind::Sandbox, SANDBOX).is_none() {
            fetch::fetch(ArtifactKind::Sandbox, SANDBOX).await?;
        }
        let log = match run {
            Some(run) => std::fs::create_dir_all(run).map(|()| run.join("verifier.log")),
            None => NamedTempFile::with_prefix(format!("{NAME}.log-"))
                .and_then(|log| Ok(log.into_temp_path().keep()?)),
        };
        let folder = run.map_or_else(std::env::temp_dir, Path::to_owned);
        let log = log.with_context(|| format!("no log in {}", folder.display()))?;
        if run.is_none() {
            say(&format!("the verifier logs to {}", log.display()));
        }
        Self::start(&program, &log, recipe, runs_code, data_dir).await
    }

    /// Starts it on a free port of this machine; its stderr goes to the end of `log`. It judges by the policies of the recipe. If it need not run programs, it does
    /// not prepare their sandbox: that would take a gigabyte, and minutes of processor time that training needs. It requires the token that runs of this recipe
    /// send, if they send one.
    pub(crate) async fn start(
        program: &Path,
        log: &Path,
        recipe: &config::Verifier,
        runs_code: bool,
        data_dir: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let errors = File::options().create(true).append(true).open(log);
        let errors = errors.with_context(|| format!("{} cannot be written", log.display()))?;
        // What earlier verifiers logged says nothing about this one.
        let before = errors.metadata().map_or(0, |log| log.len() as usize);
        let mut command = Command::new(program);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--until-stdin-ends"])
            .args(option("--config", recipe.config.as_deref()))
            .args(option("--data-dir", data_dir))
            .args(option("--math-policy", recipe.math_policy.as_deref()))
            .args(option(
                "--math-extraction",
                recipe.math_extraction.as_deref(),
            ))
            .args(option(
                "--code-extraction",
                recipe.code_extraction.as_deref(),
            ))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .kill_on_drop(true);
        if !runs_code {
            command.args(["--set", "code.sandbox=none"]);
        }
        match recipe.token() {
            Some(token) => command.env(TOKEN, token),
            // The environment may have one for another verifier.
            None => command.env_remove(TOKEN),
        };
        command.process_group(0);
        let mut child = command
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let stdout = child.stdout.take();
        let stdout = stdout.context("the verifier was started without a stdout")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(START_TIMEOUT, lines.next_line());
        let line = line.await.with_context(|| {
            format!(
                "{NAME} did not print its address within {} s; see {}",
                START_TIMEOUT.as_secs(),
                log.display()
            )
        })?;
        let line = line.ok().flatten().unwrap_or_default();
        let Some(url) = line.strip_prefix("listening on ").map(str::to_owned) else {
            let silent = || format!("it logged nothing; its log is {}", log.display());
            let reason = last_line(log, before).unwrap_or_else(silent);
            bail!("{NAME} ended before it listened: {reason}");
        };
        // Any further output must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { _child: child, url })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

/// The option with its value, or nothing if the recipe does not set the value.
fn option<'a, T: AsRef<OsStr> + ?Sized>(
    flag: &'a str,
    value: Option<&'a T>,
) -> impl Iterator<Item = &'a OsStr> {
    value
        .into_iter()
        .flat_map(move |value| [flag.as_ref(), value.as_ref()])
}

/// The last line that is not empty of a log after its first `before` bytes, for an error.
pub(crate) fn last_line(log: &Path, before: usize) -> Option<String> {
    let text = std::fs::read(log).ok()?;
    // A log that was truncated meanwhile is read whole.
    let text = String::from_utf8_lossy(text.get(before..).unwrap_or(&text));
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Starts a script as the verifier, in a temporary folder. In the script, `FILE` stands for a file there; its path is returned too.
    async fn started(
        text: &str,
        recipe: &config::Verifier,
    ) -> (anyhow::Result<VerifierProcess>, tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let [program, log, file] = ["program", "log", "file"].map(|name| folder.path().join(name));
        let text = text.replace("FILE", file.to_str().unwrap());
        std::fs::write(&log, "a line of an earlier verifier\n").unwrap();
        std::fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let process = VerifierProcess::start(&program, &log, recipe, false, None).await;
        (process, folder, file)
    }

    const LISTEN: &str = "echo listening on http://127.0.0.1:4711; exec sleep 60";

    #[tokio::test]
    async fn the_verifier_has_the_recipes_policies_and_the_token_that_its_runs_send() {
        // A variable that every environment has, and one that none has.
        for (variable, token) in [
            ("PATH", std::env::var("PATH").unwrap()),
            ("RAPID_TEST_TOKEN_THAT_NOBODY_SETS", String::new()),
        ] {
            let recipe = config::Verifier {
                token_env: variable.to_owned(),
                ..config::load("quickstart", &[]).unwrap().verifier
            };
            let text = format!("echo \"$RAPID_VERIFIER_TOKEN $@\" > FILE; {LISTEN}");
            let (process, _folder, file) = started(&text, &recipe).await;
            assert_eq!(process.unwrap().url(), "http://127.0.0.1:4711");
            let given = std::fs::read_to_string(file).unwrap();
            let policies =
                " --math-policy standard --math-extraction boxed --set code.sandbox=none\n";
            assert!(given.starts_with(&format!("{token} serve")) && given.ends_with(policies));
        }
    }

    #[tokio::test]
    async fn the_verifiers_stdin_is_open_until_its_owner_ends() {
        let text = "echo listening on http://127.0.0.1:4711; cat; touch FILE";
        let (process, _folder, ended) = started(text, &config::Verifier::default()).await;
        let mut process = process.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!ended.exists());
        // The system closes this end of the pipe in the same way when the owner ends.
        drop(process._child.stdin.take());
        process._child.wait().await.unwrap();
        assert!(ended.exists());
    }

    #[tokio::test]
    async fn the_error_quotes_a_verifier_that_ends_at_once() {
        for (text, quoted) in [
            ("echo the port is taken >&2; exit 1", "the port is taken"),
            ("exit 1", "it logged nothing"),
        ] {
            let (process, ..) = started(text, &config::Verifier::default()).await;
            let Err(error) = process else {
                panic!("a verifier that does not listen was accepted");
            };
            assert!(error.to_string().contains(quoted), "{error}");
        }
    }
}
