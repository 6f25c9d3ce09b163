//! A failure of the engine is never a failure of the program, and no container is left behind.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sandboxes::defined_names::{self, Text};
use sandboxes::docker::{DockerSandbox, Settings};
use sandboxes::{Call, Deferred, End, Limits, SandboxError};

use super::support::{docker, open, settings};
use crate::cases::{assert_unusable, changed, run, run_within, try_run};

const LABEL: &str = "rapid-verifier.owner";

#[test]
fn the_error_names_the_remedy_if_no_engine_answers() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        host: Some(format!("unix://{}/none.sock", folder.path().display())),
        ..settings()
    };
    assert_unusable(DockerSandbox::open(&settings), &["none.sock", "docker.io"]);
}

#[test]
fn the_error_names_a_missing_image_or_runtime_and_the_remedy() {
    if open(&settings()).is_none() {
        return;
    }
    let absent = Settings {
        image: "rapid-no-such-image:1".to_owned(),
        ..settings()
    };
    let says = ["rapid-no-such-image:1", "import-image.sh"];
    assert_unusable(DockerSandbox::open(&absent), &says);
    let runtime = Settings {
        runtime: Some("no-such-runtime".to_owned()),
        ..settings()
    };
    let says = ["no-such-runtime", "runc"];
    assert_unusable(DockerSandbox::open(&runtime), &says);
}

#[test]
fn with_another_runtime_a_container_keeps_its_memory_limit() {
    let Some(sandbox) = open(&Settings {
        memory: 781 << 20,
        runtime: Some("runc".to_owned()),
        ..settings()
    }) else {
        return;
    };
    let limits = changed(|it| it.memory = 256 << 20);
    let source = "def f(n): return len(b'x' * (n << 20))";
    let run = run_within(&sandbox, source, &["[300]"], &limits);
    assert_eq!(run.calls, [Call::Returned((300 << 20).to_string())]);
}

/// The containers with this memory limit. It distinguishes a test's containers from those of other tests in this process.
fn containers_with_memory(memory: u64) -> Option<BTreeSet<String>> {
    let label = format!("label={LABEL}");
    let listed = docker(&["ps", "--all", "--quiet", "--filter", &label])?;
    let has_memory = |id: &&str| {
        // Another test's container may be gone by now.
        let arguments = ["inspect", "--format", "{{.HostConfig.Memory}}", id];
        let output = Command::new("docker").args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim() == memory.to_string()
    };
    let listed = listed.lines().filter(has_memory);
    Some(listed.map(str::to_owned).collect())
}

/// Waits until `found` is as `wanted`, and returns it.
fn wait_for<T: std::fmt::Debug>(
    found: impl Fn() -> Option<T>,
    wanted: impl Fn(&T) -> bool,
) -> Option<T> {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let now = found()?;
        if wanted(&now) {
            return Some(now);
        }
        assert!(Instant::now() < patience, "there are {now:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn texts_are_read_in_one_container_that_no_program_gets() {
    let limits = changed(|it| it.memory = 779 << 20);
    let containers = 4;
    let Some(sandbox) = open(&Settings {
        memory: limits.memory,
        containers,
        ..settings()
    }) else {
        return;
    };
    let read = |text: &str| {
        let text = Text {
            header: "",
            text,
            loose: true,
        };
        defined_names::read(&sandbox, &[text], &limits).unwrap()
    };
    // All containers once the maximum is reached: each of them is warm or waits for texts.
    let found = || containers_with_memory(limits.memory);
    let all = || wait_for(found, |now| now.len() == containers);
    read("x = 1");
    let Some(before) = all() else { return };
    for text in ["def f(): pass", "no Python", ""].repeat(10) {
        read(text);
    }
    assert_eq!(all(), Some(before.clone()));
    // Each run takes a container of its own, and the reader's container stays.
    for _ in 0..2 * containers {
        run_within(&sandbox, "def f(): return 1", &["[]"], &limits);
    }
    let stayed = all().map(|now| now.intersection(&before).count());
    assert_eq!(stayed, Some(1));
}

#[test]
fn a_closed_sandbox_leaves_no_container() {
    let memory = 777 << 20;
    let Some(sandbox) = open(&Settings {
        memory,
        ..settings()
    }) else {
        return;
    };
    let count = || Some(containers_with_memory(memory)?.len());
    run(&sandbox, "def f(): return 1", &["[]"]);
    // The container that was used is being removed, and another is being created.
    if wait_for(count, |open| *open > 0).is_none() {
        return;
    }
    drop(sandbox);
    assert_eq!(count(), Some(0));
}

#[test]
fn only_the_containers_of_dead_verifiers_are_removed_at_start() {
    let Some(living) = open(&settings()) else {
        return;
    };
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let (boot, namespace) = (boot.trim(), namespace.display());
    let owner = |process: u32| format!("{LABEL}={boot}/{namespace}/{process}/999999999999");
    let image = settings().image;
    let create = |owner: &str| {
        let command = ["create", "--network=none", "--label", owner, &image];
        docker(&[&command[..], &["sleep", "300"]].concat())
    };
    // A process with the second id is alive, but started at another time.
    let (Some(dead), Some(reused), Some(elsewhere)) = (
        create(&owner(gone.id())),
        create(&owner(1)),
        create(&format!("{LABEL}=another-boot/another/1/1")),
    ) else {
        return;
    };
    for id in [&dead, &reused] {
        // Another test may open a sandbox at this moment, and that may have removed the container already.
        let _ = Command::new("docker").args(["start", id]).output();
    }
    docker(&["start", &elsewhere]).unwrap();
    let second = open(&settings()).unwrap();
    // Another test's sandbox may have begun to remove them and not have finished.
    let all = wait_for(
        || docker(&["ps", "--all", "--no-trunc", "--quiet"]),
        |all| !all.contains(&dead) && !all.contains(&reused),
    );
    assert!(all.unwrap().contains(&elsewhere));
    docker(&["rm", "--force", &elsewhere]).unwrap();
    for sandbox in [&living, &second] {
        let run = run(sandbox, "def f(): return 1", &["[]"]);
        assert_eq!(run.end, End::Completed);
    }
}

#[test]
fn containers_that_vanish_while_they_wait_are_replaced() {
    let Some(sandbox) = open(&settings()) else {
        return;
    };
    run(&sandbox, "def f(): return 1", &["[]"]);
    let mine = format!("/{}/", std::process::id());
    let format = format!("{{{{.ID}}}} {{{{.Label \"{LABEL}\"}}}}");
    let label = format!("label={LABEL}");
    let Some(listed) = docker(&["ps", "--filter", &label, "--format", &format]) else {
        return;
    };
    for line in listed.lines().filter(|line| line.contains(&mine)) {
        // The container may just have been used and removed.
        let id = line.split(' ').next().unwrap();
        let _ = Command::new("docker").args(["kill", id]).output();
    }
    let run_once = || try_run(&sandbox, "def f(): return 1", &["[]"], &Limits::default());
    for _ in 0..5 {
        // A run may begin before the end of its container is noticed. It is deferred then.
        let mut runs = std::iter::repeat_with(run_once).take(5);
        let run = runs.find(|run| !matches!(run, Err(SandboxError::Deferred(_))));
        let run = run.expect("a container that runs").unwrap();
        assert_eq!(run.calls, [Call::Returned("1".to_owned())]);
    }
}

#[test]
fn a_run_is_deferred_if_the_engine_is_lost_during_it() {
    if open(&settings()).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("engine.sock");
    let proxy = Proxy::start(&socket);
    let settings = Settings {
        host: Some(format!("unix://{}", socket.display())),
        ..settings()
    };
    let sandbox = DockerSandbox::open(&settings).unwrap();
    let run = |source| try_run(&sandbox, source, &["[]"], &Limits::default());
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| run("def f():\n    while True: pass"));
        std::thread::sleep(Duration::from_secs(3));
        proxy.cut();
        running.join().unwrap()
    });
    assert!(
        matches!(&outcome, Err(SandboxError::Deferred(Deferred::Failed(why))) if why.contains("Docker")),
        "{outcome:?}"
    );
    // Runs are deferred as long as the engine is unreachable, and complete when it is back.
    let easy = "def f(): return 1";
    assert!(matches!(run(easy), Err(SandboxError::Deferred(_))));
    proxy.restore();
    let mut outcome = run(easy);
    for _ in 0..10 {
        if outcome.is_ok() {
            break;
        }
        outcome = run(easy);
    }
    assert_eq!(outcome.unwrap().end, End::Completed);
}

/// A proxy between the sandbox and the engine. It can cut the connection.
struct Proxy {
    cut: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<UnixStream>>>,
}

impl Proxy {
    fn start(socket: &Path) -> Proxy {
        let engine = std::env::var("DOCKER_HOST")
            .ok()
            .and_then(|host| host.strip_prefix("unix://").map(str::to_owned))
            .unwrap_or_else(|| "/var/run/docker.sock".to_owned());
        let listener = UnixListener::bind(socket).unwrap();
        let proxy = Proxy {
            cut: Arc::default(),
            streams: Arc::default(),
        };
        let (cut, streams) = (Arc::clone(&proxy.cut), Arc::clone(&proxy.streams));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                if cut.load(Ordering::SeqCst) {
                    continue;
                }
                let server = UnixStream::connect(&engine).unwrap();
                for (mut from, mut to) in [
                    (client.try_clone().unwrap(), server.try_clone().unwrap()),
                    (server.try_clone().unwrap(), client.try_clone().unwrap()),
                ] {
                    std::thread::spawn(move || {
                        let mut buffer = [0; 1 << 16];
                        while let Ok(length @ 1..) = from.read(&mut buffer) {
                            if to.write_all(&buffer[..length]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
                streams.lock().unwrap().extend([client, server]);
            }
        });
        proxy
    }

    fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn restore(&self) {
        self.cut.store(false, Ordering::SeqCst);
    }
}
