//! A Docker engine that is killed during a run: the run has no verdict, and when the engine is back, the service judges again.
//!
//! The test starts a second engine with the same image, beside the machine's own. That needs root, dockerd and Linux.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tests::artifacts::skipped;
use tests::attacks::folder;
use tests::programs::{Verifier, wait_for};

const IMAGE: &str = "rapid-python:1";
/// Time limit for an engine's start or stop.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(120);

#[test]
fn verdicts_are_unavailable_from_the_kill_of_an_engine_until_it_is_back() {
    let Some(mut engine) = Engine::start() else {
        return;
    };
    let host = format!("docker.host={}", json!(engine.address()));
    let tasks = format!("datasets=[{}]", json!(folder().join("tasks.jsonl")));
    let mut arguments = Vec::new();
    for setting in [
        "code.sandbox=docker",
        "docker.containers=2",
        "docker.seconds=100",
        &host,
        &tasks,
    ] {
        arguments.extend(["--set", setting]);
    }
    let verifier = Verifier::start(&arguments);
    let ask = |completion: &str| {
        verifier.judge(
            &json!({"id": "1", "task": "tasks/values", "prompt": "", "completion": completion}),
        )
    };
    let honest = "def solve(xs): return sorted(x * x for x in xs if x % 2 == 0)";
    assert_eq!(ask(honest)["verdict"], "correct");

    std::thread::scope(|scope| {
        let endless =
            scope.spawn(|| ask("block = b'x' * (600 << 20)\ndef solve(xs):\n    while True: pass"));
        wait_for("the program to run", ENGINE_TIMEOUT, || {
            engine.is_busy().then_some(())
        });
        engine.kill();
        assert_unavailable(&endless.join().unwrap());
    });
    assert_unavailable(&ask(&format!("{honest} # while there is no engine")));
    let health = verifier.request("GET", "/healthz", b"");
    assert_eq!(health.status, 200);

    assert!(
        engine.run(),
        "it does not start again: {}",
        engine.last_log_lines()
    );
    let again = wait_for("a verdict", ENGINE_TIMEOUT, || {
        let answer = ask(&format!("{honest} # again"));
        (answer["verdict"] != "unavailable").then_some(answer)
    });
    assert_eq!(again["verdict"], "correct", "{again}");
    assert_eq!(again["passed"], again["total"]);
}

fn assert_unavailable(answer: &Value) {
    assert_eq!(answer["verdict"], "unavailable", "{answer}");
    assert_eq!(answer["retryable"], true, "{answer}");
    assert_eq!(answer["reward"], Value::Null, "{answer}");
    assert_eq!(answer["cached"], false, "{answer}");
}

/// A second engine. It is stopped when dropped, and killed if this process ends before.
struct Engine {
    folder: tempfile::TempDir,
    daemon: Option<Child>,
}

impl Engine {
    /// `None` if a second engine is not possible here; the reason is printed.
    fn start() -> Option<Engine> {
        let output_of = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().ok()?;
            output.status.success().then_some(output.stdout)
        };
        for (program, arguments, reason) in [
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
            if output_of(program, arguments).is_none() {
                skipped(reason);
                return None;
            }
        }
        if output_of("id", &["--user"])? != b"0\n" {
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
                engine.last_log_lines()
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

    /// Starts the daemon, and returns whether it answers.
    fn run(&mut self) -> bool {
        let path = |name: &str| self.folder.path().join(name);
        let log = std::fs::File::create(path("log")).unwrap();
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
            .arg(path("data"))
            .arg("--exec-root")
            .arg(path("run"))
            .arg("--pidfile")
            .arg(path("pid"));
        let mut daemon = daemon
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let answers = wait_for("a second Docker engine", ENGINE_TIMEOUT, || {
            if daemon.try_wait().unwrap().is_some() {
                return Some(false);
            }
            let info = self.docker(&["version"]).output().unwrap();
            info.status.success().then_some(true)
        });
        self.daemon = Some(daemon);
        answers
    }

    /// The last lines of the daemon's log.
    fn last_log_lines(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(3).collect();
        lines.join(" <- ")
    }

    /// Whether a container uses more than a fifth of its memory limit, which happens only when its program runs.
    fn is_busy(&self) -> bool {
        let format = "{{.MemPerc}}";
        let stats = self
            .docker(&["stats", "--no-stream", "--format", format])
            .output()
            .unwrap();
        let stats = String::from_utf8(stats.stdout).unwrap();
        let percentage = |line: &str| line.trim_end_matches('%').parse::<f64>();
        stats
            .lines()
            .filter_map(|line| percentage(line).ok())
            .any(|percentage| percentage > 20.0)
    }

    /// Kills it with SIGKILL.
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

/// Unmounts everything that an engine has left mounted below `folder`, so that the folder can be removed.
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
