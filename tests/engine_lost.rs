//! A Docker engine that dies in mid-run: no verdict comes of it, and when it is back, the service judges again.
//!
//! The engine is a second one, started here beside the one that answers, with the same image. That takes root, dockerd and Linux.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tests::artifacts::skipped;
use tests::attacks::folder;
use tests::programs::{Verifier, wait_for};

const IMAGE: &str = "rapid-python:1";
/// How long an engine may take to start, or to stop.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn an_engine_that_is_killed_in_mid_run_means_unavailable_until_it_is_back() {
    let Some(mut engine) = Engine::start() else {
        return;
    };
    let host = format!("docker.host={}", json!(engine.address()));
    let tasks = format!("datasets=[{}]", json!(folder().join("tasks.jsonl")));
    let mut arguments = Vec::new();
    for setting in [
        "code.sandbox=docker",
        "docker.containers=2",
        "code.fuel=200000000000",
        &host,
        &tasks,
    ] {
        arguments.extend(["--set", setting]);
    }
    let verifier = Verifier::start(&arguments);
    let ask = |completion: &str| judge(&verifier, completion);
    let honest = "def solve(xs): return sorted(x * x for x in xs if x % 2 == 0)";
    assert_eq!(ask(honest)["verdict"], "correct");

    std::thread::scope(|scope| {
        let endless =
            scope.spawn(|| ask("block = b'x' * (600 << 20)\ndef solve(xs):\n    while True: pass"));
        wait_for("the program to run", PATIENCE, || {
            engine.works().then_some(())
        });
        engine.kill();
        unavailable(&endless.join().unwrap());
    });
    unavailable(&ask(&format!("{honest} # while there is no engine")));
    let health = verifier.request("GET", "/healthz", b"");
    assert_eq!(health.status, 200);

    assert!(engine.run(), "it does not start again: {}", engine.said());
    let again = wait_for("a verdict", PATIENCE, || {
        let answer = ask(&format!("{honest} # again"));
        (answer["verdict"] != "unavailable").then_some(answer)
    });
    assert_eq!(again["verdict"], "correct", "{again}");
    assert_eq!(again["passed"], again["total"]);
}

fn judge(verifier: &Verifier, completion: &str) -> Value {
    let item = json!({"id": "1", "task": "tasks/values", "prompt": "", "completion": completion});
    let body = json!({ "items": [item] }).to_string();
    let answer = verifier.request("POST", "/v1/verify", body.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["results"][0].clone()
}

fn unavailable(answer: &Value) {
    assert_eq!(answer["verdict"], "unavailable", "{answer}");
    assert_eq!(answer["retryable"], true, "{answer}");
    assert_eq!(answer["reward"], Value::Null, "{answer}");
    assert_eq!(answer["cached"], false, "{answer}");
}

/// A second engine. Stopped when dropped, and killed where this process ends before.
struct Engine {
    folder: tempfile::TempDir,
    daemon: Option<Child>,
}

impl Engine {
    /// `None` after saying loudly why there can be none.
    fn start() -> Option<Engine> {
        let out = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().ok()?;
            output.status.success().then_some(output.stdout)
        };
        for (program, arguments, why) in [
            (
                "dockerd",
                ["--version"].as_slice(),
                "dockerd is not installed",
            ),
            ("setpriv", &["--version"], "setpriv is not installed"),
            (
                "docker",
                &["image", "inspect", IMAGE],
                "no engine answers that has the image; bash scripts/docker.sh",
            ),
        ] {
            if out(program, arguments).is_none() {
                skipped(why);
                return None;
            }
        }
        if out("id", &["--user"])? != b"0\n" {
            skipped("only root can start a second Docker engine");
            return None;
        }
        let mut engine = Engine {
            folder: tempfile::tempdir().unwrap(),
            daemon: None,
        };
        if !engine.run() {
            skipped(&format!(
                "a second Docker engine does not start here: {}",
                engine.said()
            ));
            return None;
        }
        let mut saved = Command::new("docker")
            .args(["save", IMAGE])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let loaded = engine
            .docker(&["load"])
            .stdin(saved.stdout.take().unwrap())
            .output()
            .unwrap();
        assert!(saved.wait().unwrap().success());
        assert!(loaded.status.success(), "{loaded:?}");
        Some(engine)
    }

    fn address(&self) -> String {
        format!("unix://{}", self.folder.path().join("socket").display())
    }

    fn docker(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.args(["--host", &self.address()]).args(arguments);
        command
    }

    /// Starts the daemon; whether it answers.
    fn run(&mut self) -> bool {
        let own = |name: &str| self.folder.path().join(name);
        let log = std::fs::File::create(own("log")).unwrap();
        let mut daemon = Command::new("setpriv");
        daemon
            .args([
                "--pdeathsig",
                "KILL",
                "dockerd",
                "--bridge=none",
                "--iptables=false",
            ])
            .args(["--host", &self.address(), "--data-root"])
            .arg(own("data"))
            .arg("--exec-root")
            .arg(own("run"))
            .arg("--pidfile")
            .arg(own("pid"));
        let mut daemon = daemon
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let answers = wait_for("a second Docker engine", PATIENCE, || {
            if daemon.try_wait().unwrap().is_some() {
                return Some(false);
            }
            let info = self.docker(&["version"]).output().unwrap();
            info.status.success().then_some(true)
        });
        self.daemon = Some(daemon);
        answers
    }

    /// The last lines of what the daemon said.
    fn said(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(3).collect();
        lines.join(" <- ")
    }

    /// Whether a container has taken a fifth of the memory that it may have, which none does before its program runs.
    fn works(&self) -> bool {
        let format = "{{.MemPerc}}";
        let stats = self
            .docker(&["stats", "--no-stream", "--format", format])
            .output()
            .unwrap();
        let stats = String::from_utf8(stats.stdout).unwrap();
        let share = |line: &str| line.trim_end_matches('%').parse::<f64>();
        stats
            .lines()
            .filter_map(|line| share(line).ok())
            .any(|share| share > 20.0)
    }

    /// With SIGKILL.
    fn kill(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = Command::new("kill").arg(daemon.id().to_string()).status();
            let _ = daemon.wait();
        }
        unmount(self.folder.path());
    }
}

/// Unmounts whatever an engine has left mounted below `folder`, so that it can be removed.
fn unmount(folder: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let below: Vec<_> = points
        .filter(|point| Path::new(point).starts_with(folder))
        .collect();
    for point in below.iter().rev() {
        let _ = Command::new("umount").args(["--lazy", point]).status();
    }
}
