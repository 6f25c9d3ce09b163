//! Starts, watches and stops the two programs as a user does. They have to be built before (`cargo build --release`).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::memory::Memory;

/// Time limit for a call of a program.
const LIMIT: Duration = Duration::from_secs(15 * 60);
/// Time limit until a process that was sent a signal has stopped or ended.
const SIGNALLED: Duration = Duration::from_secs(60);
/// Time limit until a verifier is ready. Its first start prepares the sandbox, which compiles an interpreter.
const READY: Duration = Duration::from_secs(30 * 60);

/// The path of the built program of this name, beside the folder of the running test, `target/PROFILE/deps`.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join(name);
    assert!(
        program.is_file(),
        "{} is not built: run `cargo build --release` first",
        program.display()
    );
    program
}

/// `rapid` with these arguments.
pub fn rapid<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    with_arguments("rapid", arguments)
}

/// `rapid-verifier` with these arguments.
pub fn rapid_verifier<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    with_arguments("rapid-verifier", arguments)
}

fn with_arguments<S: AsRef<OsStr>>(name: &str, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(program(name));
    // These tests use the CPU on machines with a GPU, too.
    command.env("CUDA_VISIBLE_DEVICES", "");
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The outcome of a program.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Exit status; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Outcome {
    /// Asserts that the program succeeded.
    #[track_caller]
    pub fn success(self) -> Self {
        self.assert_code(0);
        self
    }

    #[track_caller]
    fn assert_code(&self, code: i32) {
        let Outcome { stdout, stderr, .. } = self;
        let outputs = format!("stdout:\n{stdout}\nstderr:\n{stderr}");
        assert_eq!(self.code, Some(code), "{outputs}");
    }

    /// Asserts that the program failed with exit code `code`, and returns its error, which is one paragraph.
    #[track_caller]
    pub fn failure(self, code: i32) -> String {
        self.assert_code(code);
        let stderr = self.stderr;
        assert!(!stderr.contains("panicked at"), "{stderr}");
        let is_first = stderr.starts_with("error: ");
        let at = is_first.then_some(0).or(stderr.rfind("\nerror: "));
        let at = at.unwrap_or_else(|| panic!("no `error: ` in:\n{stderr}"));
        let paragraph = stderr[at..].trim().to_owned();
        // clap's usage errors have the usage below them; other errors are one line.
        assert!(
            code == 2 || paragraph.lines().count() == 1,
            "more than a paragraph:\n{paragraph}"
        );
        paragraph
    }
}

/// Asserts that a text has all of these parts.
#[track_caller]
pub fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

/// A loopback port on which nothing listens.
pub fn free_port() -> u16 {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.local_addr().unwrap().port()
}

/// Runs a program to its end, for at most 15 minutes.
pub fn run(command: &mut Command) -> Outcome {
    start(command).finish()
}

/// Starts a program; its output goes to files, so that it never waits for a reader.
pub fn start(command: &mut Command) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| File::create(folder.path().join(name)).unwrap();
    command.stdout(file("stdout")).stderr(file("stderr"));
    let child = command.spawn();
    let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    Running {
        child,
        folder,
        since: Instant::now(),
    }
}

/// A running program. It is killed when dropped.
#[must_use]
#[derive(Debug)]
pub struct Running {
    child: Child,
    folder: tempfile::TempDir,
    since: Instant,
}

impl Running {
    /// Waits until it has ended, for at most 15 minutes.
    pub fn finish(self) -> Outcome {
        self.finish_within(LIMIT)
    }

    /// As [`Running::finish`], for a program that may take longer.
    pub fn finish_within(mut self, limit: Duration) -> Outcome {
        while self.ended().is_none() {
            assert!(
                self.since.elapsed() < limit,
                "still running after {limit:?}; stderr so far:\n{}",
                self.stderr()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        self.outcome()
    }

    /// The exit status, or `None` while it runs.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// The process id.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with SIGKILL.
    pub fn kill(mut self) -> Outcome {
        let _ = self.child.kill();
        self.outcome()
    }

    /// Kills it and every process that it started, directly or not, with SIGKILL. It is stopped first, so that it does not see them end, nor they it.
    pub fn kill_with_descendants(mut self) -> Outcome {
        let id = self.process();
        if self.ended().is_none() {
            assert!(signal("STOP", &[id]), "kill -STOP {id} failed");
            // It may have been starting another process.
            wait_for("a program to stop", SIGNALLED, || {
                // Z: it has ended.
                Process::of(id).filter(|process| matches!(process.state, 'T' | 'Z'))
            });
            wait_for("the processes of a program to end", SIGNALLED, || {
                let alive = descendants(id);
                // One of them may have ended meanwhile.
                let _ = signal("KILL", &alive);
                alive.is_empty().then_some(())
            });
        }
        self.kill()
    }

    /// Asks it to stop, as Ctrl-C does.
    pub fn interrupt(&self) {
        let id = self.child.id();
        assert!(signal("INT", &[id]), "kill -INT {id} failed");
    }

    /// Its stderr so far.
    pub fn stderr(&self) -> String {
        self.read("stderr")
    }

    fn outcome(&mut self) -> Outcome {
        let status = self.child.wait().unwrap();
        Outcome {
            code: status.code(),
            stdout: self.read("stdout"),
            stderr: self.stderr(),
        }
    }

    fn read(&self, name: &str) -> String {
        let bytes = std::fs::read(self.folder.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to processes, and returns whether all of them existed.
pub fn signal(name: &str, processes: &[u32]) -> bool {
    if processes.is_empty() {
        return true;
    }
    let mut kill = Command::new("kill");
    kill.arg(format!("-{name}")).stderr(Stdio::null());
    kill.args(processes.iter().map(u32::to_string));
    kill.status().unwrap().success()
}

struct Process {
    parent: u32,
    /// A letter of proc_pid_stat(5): T is stopped, Z has ended.
    state: char,
}

impl Process {
    /// The process with this id; `None` if there is none.
    fn of(id: u32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // Before this is the program's name, which may have any characters in it.
        let (_, fields) = text.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        Some(Self {
            state: fields.next()?.chars().next()?,
            parent: fields.next()?.parse().ok()?,
        })
    }
}

/// The children of a process, their children, and so on, except those that have ended.
pub fn descendants(process: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    let ids = entries.flatten().filter_map(|entry| {
        let id: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((id, Process::of(id)?))
    });
    let alive: Vec<(u32, Process)> = ids
        .filter(|(_, process)| !matches!(process.state, 'Z' | 'X'))
        .collect();
    let mut family = vec![process];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        let children = alive.iter().filter(|(_, child)| child.parent == parent);
        family.extend(children.map(|(id, _)| *id));
        next += 1;
    }
    family.split_off(1)
}

/// Waits for `what` until `done` returns a value, for at most `limit`, and calls it every 20 ms.
#[track_caller]
pub fn wait_for<T>(what: &str, limit: Duration, mut done: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(answer) = done() {
            return answer;
        }
        assert!(since.elapsed() < limit, "waited {limit:?} for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A running `rapid-verifier serve` without a cache on disk. It is killed when dropped.
#[derive(Debug)]
pub struct Verifier {
    address: SocketAddr,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    running: Option<Running>,
}

impl Verifier {
    /// Starts one on a free loopback port and waits until it is ready.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// As [`Verifier::start`], with additional environment variables.
    pub fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let variable = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        let mut verifier = Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())),
            arguments: arguments.iter().map(ToString::to_string).collect(),
            environment: environment.iter().map(variable).collect(),
            running: None,
        };
        verifier.restart();
        verifier
    }

    /// Its address for `--verifier`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its stderr since its start.
    pub fn stderr(&self) -> String {
        self.running.as_ref().unwrap().stderr()
    }

    /// The current memory of its process.
    pub fn memory(&self) -> Memory {
        Memory::of(self.running.as_ref().unwrap().process())
    }

    /// Kills it if it runs, and waits until the process has ended.
    pub fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            let _ = running.kill();
        }
    }

    /// Starts it again at the same address, and waits until it is ready.
    pub fn restart(&mut self) {
        self.kill();
        let address = self.address.to_string();
        let first = ["serve", "--listen", &address, "--no-disk-cache"].map(str::to_owned);
        let mut command = rapid_verifier(first.iter().chain(&self.arguments));
        command.envs(self.environment.iter().cloned());
        let mut running = start(&mut command);
        wait_for("the verifier to be ready", READY, || {
            let ended = running.ended();
            assert_eq!(ended, None, "the verifier ended: {}", running.stderr());
            let answer = request(self.address, "GET", "/readyz", &[]).ok()?;
            (answer.status == 200).then_some(())
        });
        self.running = Some(running);
    }

    /// Has it judge an item, and returns the judgement.
    pub fn judge(&self, item: Value) -> Value {
        self.judge_all(&[item]).remove(0)
    }

    /// Has it judge items, and returns the judgements.
    pub fn judge_all(&self, items: &[Value]) -> Vec<Value> {
        let body = json!({ "items": items }).to_string();
        let answer = self.request("POST", "/v1/verify", body.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_value(answer.json()["results"].take()).unwrap()
    }

    /// The first result in the answer to the body of a request to judge; without results, the answer's `status` and `body`.
    pub fn first_result(&self, body: &str) -> Value {
        let answer = self.request("POST", "/v1/verify", body.as_bytes());
        match answer.status {
            200 => answer.json()["results"][0].clone(),
            status => json!({ "status": status, "body": answer.body }),
        }
    }

    /// Calls `send` with every number below `count`, on so many threads, while the service's health is checked continuously.
    pub fn under_load(&self, threads: usize, count: usize, send: impl Fn(usize) + Sync) {
        let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let numbers = || Some(next.fetch_add(1, Ordering::SeqCst)).filter(|n| *n < count);
        std::thread::scope(|scope| {
            let health = scope.spawn(|| {
                let mut checks = 0;
                while !over.load(Ordering::SeqCst) {
                    let answer = self.request("GET", "/healthz", b"");
                    assert_eq!(answer.status, 200, "after {checks} healthy answers");
                    checks += 1;
                    std::thread::sleep(Duration::from_millis(100));
                }
                checks
            });
            let work = || std::iter::from_fn(numbers).for_each(&send);
            let clients: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let ended = clients.into_iter().map(ScopedJoinHandle::join);
            let ended: Vec<_> = ended.collect();
            over.store(true, Ordering::SeqCst);
            assert!(health.join().expect("the service is healthy throughout") > 0);
            let answered = ended.iter().all(Result::is_ok);
            assert!(answered, "a request was not answered");
        });
    }

    /// Sends a request to it.
    pub fn request(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        request(self.address, method, path, body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }
}

/// An answer over HTTP.
#[derive(Debug)]
pub struct Answer {
    /// The status code, such as `200`.
    pub status: u16,
    /// The body.
    pub body: String,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// Sends a request without an HTTP library, so that it can be malformed.
fn request(address: SocketAddr, method: &str, path: &str, body: &[u8]) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(LIMIT))?;
    let head = format!(
        "{method} {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    let parts = text.split_once("\r\n\r\n").and_then(|(head, body)| {
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let body = body.to_owned();
        Some(Answer { status, body })
    });
    parts.ok_or_else(|| std::io::Error::other(format!("no answer but {text:?}")))
}
