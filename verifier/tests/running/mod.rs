//! A verifier that runs for one test: the release binary, a socket, and the client that trainers use.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use datasets::fetch::{ArtifactKind, locate};
use futures::StreamExt as _;
use verifier_api::{Client, Item, Judgement, TaskRef};

/// Whether what takes tens of minutes runs in full: `RAPID_TEST_LONG=1`.
pub(crate) fn long() -> bool {
    std::env::var("RAPID_TEST_LONG").is_ok_and(|value| value == "1")
}

pub(crate) fn interpreter() -> bool {
    let exists = locate(ArtifactKind::Sandbox, verifier::setup::SANDBOX).is_some();
    if !exists {
        eprintln!(
            "SKIPPED: the sandbox's interpreter is not on this machine; `rapid-verifier fetch` fetches it"
        );
    }
    exists
}

/// Whether Docker works here, according to `rapid-verifier doctor`.
pub(crate) fn docker() -> bool {
    let output = Command::new(env!("CARGO_BIN_EXE_rapid-verifier"))
        .args(["doctor", "--set", "code.sandbox=docker"])
        .output()
        .unwrap();
    if output.status.success() {
        return true;
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    let why = stdout.lines().find(|line| line.contains("grader code"));
    let required = std::env::var("RAPID_TEST_DOCKER").is_ok_and(|value| value == "required");
    assert!(!required, "{stdout}");
    eprintln!("SKIPPED: {}", why.unwrap_or(&stdout));
    false
}

pub(crate) fn item(id: &str, task: TaskRef, completion: String) -> Item {
    Item {
        id: id.to_owned(),
        task,
        prompt: String::new(),
        completion,
        task_digest: None,
        all_tests: false,
    }
}

/// What a command has printed, and its exit code.
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> CommandOutput {
        CommandOutput {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A service's process, which ends with the test.
pub(crate) struct Serving(pub(crate) Child);

impl Serving {
    /// Starts `command`, and returns it with a client, once it listens.
    pub(crate) fn start(command: &mut Command) -> (Serving, Client) {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ");
        let client = Client::new(url.unwrap_or_else(|| panic!("{line:?}")), None).unwrap();
        (Serving(child), client)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A verifier for one test, on a free port. It ends with the test.
pub(crate) struct Running {
    _serving: Serving,
    client: Client,
}

impl Running {
    pub(crate) async fn start(data: &Path, sandbox: &str) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rapid-verifier"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data)
            .args(["--set", &format!("code.sandbox={sandbox}")])
            // Verdicts are not cached on disk; a warmed interpreter is reused.
            .arg("--no-disk-cache");
        let (serving, client) = Serving::start(&mut command);
        let started = Instant::now();
        loop {
            let readiness = client.ready().await.unwrap();
            if readiness.ready {
                break;
            }
            assert!(
                started.elapsed() < Duration::from_secs(600),
                "{readiness:?}"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Running {
            _serving: serving,
            client,
        }
    }

    /// Judges the items in requests of eight, four at a time. The judgements are in the items' order.
    pub(crate) async fn judge(&self, items: Vec<Item>) -> Vec<Judgement> {
        let batches: Vec<Vec<Item>> = items.chunks(8).map(<[Item]>::to_vec).collect();
        let judged: Vec<Vec<Judgement>> = futures::stream::iter(batches)
            .map(|batch| async move { self.client.verify(&batch).await.unwrap() })
            .buffered(4)
            .collect()
            .await;
        judged.concat()
    }
}
