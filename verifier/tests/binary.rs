//! The `rapid-verifier` binary as people use it: flags, exit codes and output.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use datasets::TaskSpec;
use serde_json::Value as Json;
use verifier_api::{Client, Item, TaskRef, Verdict};

use crate::running::{CommandOutput, Serving, item};

fn verifier(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rapid-verifier"));
    command
        .env("RAPID_HOME", home)
        .env_remove("RAPID_VERIFIER_TOKEN")
        .args(args);
    command
}

fn run(args: &str) -> CommandOutput {
    let home = tempfile::tempdir().unwrap();
    let args: Vec<&str> = args.split_whitespace().collect();
    verifier(home.path(), &args).output().unwrap().into()
}

/// Command lines that are usage errors, each with a part of its message.
const USAGE_ERRORS: &str = r#"
serv | serve
serve --no-such-flag | --no-such-flag
serve --require maths | did you mean `math`?
serve --set limits.items=abc | error: --set limits.items=abc: `limits.items` takes a whole number of at least 1, not "abc"
serve --listen localhost | a host and a port
serve --listen rapid.invalid:0 | its name cannot be looked up
serve --config no/such/file.toml | no/such/file.toml
serve --listen 0.0.0.0:0 | --token-file
serve --token-file nowhere | the token file nowhere cannot be read
fetch nope | nothing is called `nope`
bench math --pairs nope | there is no file nope
score --dataset starter-math | --samples
score --dataset starter-math --samples none.jsonl | none.jsonl
score --dataset starter-meth --samples none.jsonl | starter-math
score --dataset starter-math --samples none.jsonl --k 0 | Pass@0
"#;

#[test]
fn a_usage_error_exits_2() {
    for line in USAGE_ERRORS.trim().lines() {
        let (command, says) = line.split_once(" | ").unwrap();
        let output = run(command);
        assert_eq!(output.code, Some(2), "{command}: {}", output.stderr);
        assert!(output.stderr.contains(says), "{command}: {}", output.stderr);
        assert!(output.stdout.is_empty(), "{command}: {}", output.stdout);
    }
    assert_eq!(run("").code, Some(2));
}

#[test]
fn a_refused_start_prints_the_reason_alone() {
    let stderr = run("serve --listen 0.0.0.0:0").stderr;
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let stderr = run("serve --listen 0.0.0.0:0 --log debug").stderr;
    assert!(stderr.contains("backstop_seconds = 900.0"), "{stderr}");
}

#[test]
fn the_doctor_uses_the_words_of_rapid_doctor() {
    let doctor = "doctor --no-disk-cache --set code.sandbox=none";
    let CommandOutput { code, stdout, .. } = run(doctor);
    assert_eq!(code, Some(1));
    let state = |what: &str| stdout.lines().find(|line| line.contains(what)).unwrap();
    assert!(state("grader math").starts_with("ok  "), "{stdout}");
    assert!(state("grader lean").starts_with("warn"), "{stdout}");
    assert!(state("grader code").starts_with("FAIL"), "{stdout}");
    let checks: Json = serde_json::from_str(&run(&format!("{doctor} --json")).stdout).unwrap();
    let code = checks.as_array().unwrap().iter();
    let mut code = code.filter(|check| check["what"] == "grader code");
    assert_eq!(code.next().unwrap()["state"], "fail");
}

#[test]
fn a_port_in_use_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let output = run(&format!("serve --listen {address} --set code.sandbox=none"));
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert!(output.stderr.contains("another program uses the port"));
}

/// Starts a service, and returns it with a client.
fn serve(home: &Path, args: &[&str]) -> (Serving, Client) {
    serve_with(home, args, Stdio::null())
}

fn serve_with(home: &Path, args: &[&str], stderr: Stdio) -> (Serving, Client) {
    let mut command = verifier(home, &["serve", "--set", "code.sandbox=none"]);
    if !args.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    Serving::start(command.args(args).stderr(stderr))
}

/// An item for each number, with a right answer; no two are equal.
fn items(numbers: Range<usize>) -> Vec<Item> {
    numbers
        .map(|n| {
            let task = TaskRef::Inline(TaskSpec::math(n.to_string()));
            item(&n.to_string(), task, format!("\\boxed{{{n}}}"))
        })
        .collect()
}

#[tokio::test]
async fn a_service_listens_on_a_name_of_this_machine() {
    let home = tempfile::tempdir().unwrap();
    for address in ["localhost:0", "LOCALHOST:0"] {
        let (_serving, client) = serve(home.path(), &["--listen", address]);
        assert!(!client.url().contains(":0"), "{}", client.url());
        assert_eq!(client.verify(&items(0..1)).await.unwrap().len(), 1);
    }
}

fn terminate(serving: &Serving) {
    let id = serving.0.id().to_string();
    Command::new("kill").arg(id).status().unwrap();
}

/// The exit code of a service that ends by itself.
fn code_of(serving: &mut Serving) -> Option<i32> {
    let started = Instant::now();
    loop {
        if let Some(status) = serving.0.try_wait().unwrap() {
            return status.code();
        }
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "it does not stop"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test]
async fn a_second_signal_ends_a_service_at_once() {
    let home = tempfile::tempdir().unwrap();
    for (signals, code) in [(1, 0), (2, 130)] {
        let (mut serving, client) = serve_with(home.path(), &[], Stdio::piped());
        let mut log = BufReader::new(serving.0.stderr.take().unwrap()).lines();
        let address = client.url().strip_prefix("http://").unwrap();
        let mut half = TcpStream::connect(address.trim_end_matches('/')).unwrap();
        // After `100 Continue`, the service waits for the body.
        half.write_all(b"POST /v1/verify HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n")
            .unwrap();
        let mut response = [0; 12];
        half.read_exact(&mut response).unwrap();
        assert_eq!(&response, b"HTTP/1.1 100");
        terminate(&serving);
        let stopping = log.find(|line| line.as_ref().unwrap().contains("stopping"));
        assert!(stopping.is_some(), "it does not log that it stops");
        for _ in 1..signals {
            terminate(&serving);
        }
        assert_eq!(code_of(&mut serving), Some(code));
    }
}

/// A pipe with a closed reader, as after `| head`.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[tokio::test]
async fn a_service_keeps_running_if_its_output_is_closed() {
    let home = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let mut args = vec!["serve", "--log", "debug", "--listen", address.as_str()];
    args.extend(["--set", "code.sandbox=none"]);
    let child = verifier(home.path(), &args)
        .stdout(unread())
        .stderr(unread())
        .spawn();
    let mut serving = Serving(child.unwrap());
    let client = Client::new(format!("http://{address}"), None).unwrap();
    let started = Instant::now();
    while client.verify(&items(0..1)).await.is_err() {
        assert!(
            serving.0.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_secs(30),
            "it does not answer"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    terminate(&serving);
    assert_eq!(code_of(&mut serving), Some(0));
}

#[tokio::test]
async fn a_stopped_service_exits_0_and_its_verdicts_are_cached() {
    let home = tempfile::tempdir().unwrap();
    let (mut serving, client) = serve(home.path(), &[]);
    let first = client.verify(&items(0..50)).await.unwrap();
    for judgement in first {
        assert!(judgement.verdict == Verdict::Correct && !judgement.cached);
    }
    terminate(&serving);
    assert_eq!(code_of(&mut serving), Some(0));
    let (_serving, client) = serve(home.path(), &[]);
    let second = client.verify(&items(0..50)).await.unwrap();
    assert!(second.iter().all(|judgement| judgement.cached));
}

#[tokio::test]
async fn a_killed_service_leaves_a_usable_cache() {
    let home = tempfile::tempdir().unwrap();
    let started = Instant::now();
    // The disk may be slow, so the wait doubles in each round.
    let mut wait = Duration::from_millis(100);
    for round in 0.. {
        let fresh = items(200 * round..200 * (round + 1));
        let (killed, client) = serve(home.path(), &[]);
        let first = client.verify(&fresh).await.unwrap();
        assert!(first.iter().all(|judgement| !judgement.cached));
        tokio::time::sleep(wait).await;
        drop(killed);
        let (_serving, client) = serve(home.path(), &[]);
        let again = client.verify(&fresh).await.unwrap();
        for judgement in &again {
            assert_eq!(judgement.verdict, Verdict::Correct);
        }
        if again.iter().any(|judgement| judgement.cached) {
            break;
        }
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "nothing is stored, {wait:?} before the kill"
        );
        wait *= 2;
    }
    for entry in std::fs::read_dir(home.path().join("verifier")).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(!name.to_string_lossy().contains("corrupt"), "{name:?}");
    }
}

#[tokio::test]
async fn the_extraction_rules_follow_the_flags_and_are_shown_in_info() {
    let home = tempfile::tempdir().unwrap();
    let mut item = items(2..3).remove(0);
    item.completion = "so the answer is 2.".to_owned();
    let flags = "--math-extraction any --code-extraction last-block".split(' ');
    for (flags, verdict, policy) in [
        (Vec::new(), Verdict::Malformed, "program"),
        (flags.collect(), Verdict::Correct, "last-block"),
    ] {
        let (_serving, client) = serve(home.path(), &flags);
        let judged = client.verify(std::slice::from_ref(&item)).await.unwrap();
        assert_eq!(judged[0].verdict, verdict);
        let info = client.info().await.unwrap();
        let mut graders = info.graders.iter();
        let code = graders.find(|grader| grader.name == "code").unwrap();
        assert_eq!(code.policy.as_deref(), Some(policy));
        assert_eq!(code.version, verifier::grade::code::VERSION);
    }
}
