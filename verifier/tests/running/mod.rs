//! A verifier that runs for one test: the release binary, a socket, and the client that trainers use.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use datasets::fetch::{ArtifactKind, locate};
use futures::StreamExt as _;
use verifier_api::{Client, Item, Judgement};

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

/// A verifier for one test, on a free port. It ends with the test.
pub(crate) struct Running {
    child: Child,
    client: Client,
}

impl Running {
    pub(crate) async fn start(data: &Path, sandbox: &str) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rapid-verifier"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data)
            .args(["--set", &format!("code.sandbox={sandbox}")]);
        // Verdicts are not cached on disk; a warmed interpreter is reused.
        command.args(["--no-disk-cache"]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let url = line
            .trim()
            .strip_prefix("listening on ")
            .unwrap_or_else(|| panic!("{line:?}"));
        let client = Client::new(url, None).unwrap();
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
        Running { child, client }
    }

    /// Judges the items in requests of eight, four at a time. The judgements are in the items' order.
    pub(crate) async fn judge(&self, items: Vec<Item>) -> Vec<Judgement> {
        let batches: Vec<(usize, Vec<Item>)> =
            items.chunks(8).map(<[Item]>::to_vec).enumerate().collect();
        let mut answers: Vec<(usize, Vec<Judgement>)> =
            futures::stream::iter(batches)
                .map(|(number, batch)| async move {
                    (number, self.client.verify(&batch).await.unwrap())
                })
                .buffer_unordered(4)
                .collect()
                .await;
        answers.sort_by_key(|(number, _)| *number);
        answers
            .into_iter()
            .flat_map(|(_, judgements)| judgements)
            .collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
