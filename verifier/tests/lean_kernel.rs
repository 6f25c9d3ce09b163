//! The process that checks proofs: the real program with its jail and its limits, on modules that a real Lean compiled. Also misbehaving stand-ins for it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use datasets::LeanTask;
use sandboxes::lean::Jail;
use serde_json::json;
use verifier::grade::Grading;
use verifier::grade::lean::{JailChoice, LeanGrader, LeanSettings};
use verifier_api::Verdict::{self, Correct, Incorrect, Memory, Unavailable};

const HEADER: &str = "prelude\n\nuniverse u";
const PROGRAM: &str = env!("CARGO_BIN_EXE_rapid-verifier");

fn test_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/lean_kernel")
        .join(name)
}

/// A grader with a stand-in for Lean, and the folder of the modules that it "compiles".
struct Bench {
    folder: tempfile::TempDir,
    grader: LeanGrader,
}

impl Bench {
    /// Each test has its own `memory_mib`, and finds its processes by it.
    fn new(memory_mib: u64, jail: JailChoice, kernel: Option<&Path>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernel/tests/modules");
        for module in std::fs::read_dir(modules).unwrap() {
            let module = module.unwrap().path();
            let to = folder.path().join(module.file_name().unwrap());
            std::fs::create_dir(&to).unwrap();
            for file in std::fs::read_dir(module).unwrap() {
                let file = file.unwrap().path();
                std::fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
            }
        }
        let script = test_file("stand_in_lean.sh");
        let command = ["sh", script.to_str().unwrap(), "--json"];
        let settings = LeanSettings {
            command: command.map(str::to_owned).to_vec(),
            dir: Some(folder.path().to_owned()),
            headers: vec![HEADER.to_owned()],
            jail,
            memory_mib,
            kernel: Some(kernel.unwrap_or(Path::new(PROGRAM)).to_owned()),
            ..LeanSettings::default()
        };
        let grader = LeanGrader::open(&settings, 2).unwrap();
        Self { folder, grader }
    }

    /// Makes Lean output these bytes as the module of the proof `exact NAME`.
    fn set_module(&self, name: &str, bytes: &[u8]) {
        let to = self.folder.path().join(name);
        std::fs::create_dir(&to).unwrap();
        std::fs::write(to.join("Proof.olean"), bytes).unwrap();
    }

    fn grade(&self, name: &str) -> Grading {
        let task = LeanTask {
            header: HEADER.to_owned(),
            statement: "theorem swap (p q : Prop) (h : And p q) : And q p := by".to_owned(),
        };
        self.grader.grade(&task, &format!("exact {name}"))
    }

    fn assert_right(&self) {
        let grading = self.grade("proved");
        let accepted = json!({ "assurance": "rechecked", "axioms": [] });
        assert_eq!((grading.verdict, grading.detail), (Correct, accepted));
    }
}

/// The verdict, and whether it is deterministic.
fn decided(grading: &Grading) -> (Verdict, bool) {
    (grading.verdict, grading.deterministic)
}

/// Asserts that another try may give a verdict.
fn assert_unavailable_now(grading: &Grading) {
    assert!(grading.verdict == Unavailable && grading.retryable);
}

/// The jail that works here.
pub(crate) fn jail() -> JailChoice {
    match Jail::detect() {
        Jail::Bubblewrap => JailChoice::Bubblewrap,
        Jail::None => {
            println!("SKIPPED: in a jail: bubblewrap does not work here");
            JailChoice::None
        }
    }
}

/// The kernel's processes with this memory limit, without the jail's own processes.
fn kernels(memory_mib: u64) -> Vec<u32> {
    let program = Path::new(PROGRAM).canonicalize().unwrap();
    let limit = format!("--memory-mib={memory_mib}");
    let ids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let id: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let words = std::fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?;
        let mut words = words.split('\0');
        let named = Path::new(words.next()?).canonicalize().ok()? == program;
        (named && words.any(|word| word == limit)).then_some(id)
    });
    ids.collect()
}

fn signal(id: u32, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &id.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// Waits until the condition is true, without a time limit.
fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn only_a_correct_proof_is_accepted_and_the_process_is_reused() {
    for (memory_mib, jail) in [(501, jail()), (502, JailChoice::None)] {
        let bench = Bench::new(memory_mib, jail, None);
        bench.assert_right();
        let first = kernels(memory_mib);
        assert_eq!(first.len(), 1);
        bench.set_module("empty", b"");
        bench.set_module("short", b"olean");
        bench.set_module("zeros", &vec![0; 1 << 20]);
        let mut changed = std::fs::read(bench.folder.path().join("proved/Proof.olean")).unwrap();
        changed[60..].fill(0xff);
        bench.set_module("changed", &changed);
        for name in [
            "assumed", "another", "missing", "empty", "short", "zeros", "changed",
        ] {
            let grading = bench.grade(name);
            assert_eq!(decided(&grading), (Incorrect, true), "{name}: {grading:?}");
        }
        bench.assert_right();
        assert_eq!(kernels(memory_mib), first, "it is the same process");
        drop(bench);
        assert!(kernels(memory_mib).is_empty(), "it ends with the grader");
    }
}

#[test]
fn a_killed_process_is_replaced() {
    let bench = Bench::new(503, jail(), None);
    bench.assert_right();
    // Killed while idle.
    signal(kernels(503)[0], "KILL");
    until(|| kernels(503).is_empty());
    bench.assert_right();
    // Killed while it handles a request.
    let id = kernels(503)[0];
    signal(id, "STOP");
    std::thread::scope(|scope| {
        let request = scope.spawn(|| bench.assert_right());
        std::thread::sleep(Duration::from_millis(300));
        signal(id, "KILL");
        request.join().unwrap();
    });
    assert_ne!(kernels(503), [id]);
}

#[test]
fn the_process_has_no_network_and_no_capabilities_and_sees_no_other_files() {
    if jail() == JailChoice::None {
        return;
    }
    let secret = tempfile::NamedTempFile::new().unwrap();
    let bench = Bench::new(504, JailChoice::Bubblewrap, None);
    bench.assert_right();
    let id = kernels(504)[0];
    let link = |id: &str, name: &str| std::fs::read_link(format!("/proc/{id}/ns/{name}")).unwrap();
    for name in ["net", "pid", "mnt", "user", "ipc"] {
        assert_ne!(link(&id.to_string(), name), link("self", name), "{name}");
    }
    let root = PathBuf::from(format!("/proc/{id}/root"));
    let inside = |path: &Path| root.join(path.strip_prefix("/").unwrap());
    assert!(inside(Path::new(PROGRAM)).is_file());
    assert!(!inside(secret.path()).exists());
    assert!(!inside(bench.folder.path()).exists());
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    let mounts = std::fs::read_to_string(format!("/proc/{id}/mountinfo")).unwrap();
    let root_mount = mounts
        .lines()
        .find(|line| line.split(' ').nth(4) == Some("/"));
    let options = root_mount.unwrap().split(' ').nth(5).unwrap();
    assert!(options.split(',').any(|option| option == "ro"), "{mounts}");
}

#[test]
fn the_system_limits_the_process() {
    for (memory_mib, jail) in [(505, jail()), (506, JailChoice::None)] {
        let bench = Bench::new(memory_mib, jail, None);
        bench.assert_right();
        let id = kernels(memory_mib)[0];
        let limits = std::fs::read_to_string(format!("/proc/{id}/limits")).unwrap();
        let hard = |name: &str| {
            let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
            let mut words = line[name.len()..].split_whitespace();
            assert_eq!(words.next(), words.clone().next(), "{line}");
            words.next().unwrap().to_owned()
        };
        assert_eq!(hard("Max core file size"), "0");
        assert_eq!(hard("Max file size"), "0");
        let data = (memory_mib << 20) + kernel::STACK_BYTES as u64;
        assert_eq!(hard("Max data size"), data.to_string());
    }
}

/// A module with an array of millions as its declarations: memory beyond the limit is requested before any declaration is read.
fn large(bytes: usize) -> Vec<u8> {
    const BASE: u64 = 0x10_0000;
    let mut file = vec![0; bytes];
    let mut put = |at: usize, words: &[u64]| {
        for (index, word) in words.iter().enumerate() {
            file[at + 8 * index..][..8].copy_from_slice(&word.to_le_bytes());
        }
    };
    let (root, empty, many) = (96, 128, 160);
    let count = (bytes as u64 - many - 24) / 8;
    put(80, &[BASE, BASE + root]);
    let object = |tag: u64, fields: u64| tag << 56 | fields << 48;
    put(
        root as usize,
        &[object(0, 3), BASE + empty, BASE + many, BASE + many],
    );
    put(empty as usize, &[object(246, 0), 0, 0]);
    put(many as usize, &[object(246, 0), count, count]);
    file[..7].copy_from_slice(b"olean\x02\x01");
    file
}

fn memory_exceeded(mib: u64) -> String {
    format!("to check it once more, the kernel needed more than {mib} MiB of memory")
}

#[test]
fn a_proof_that_exceeds_the_memory_limit_gets_the_verdict_memory() {
    for (memory_mib, jail) in [(150, jail()), (151, JailChoice::None), (40, jail())] {
        let bench = Bench::new(memory_mib, jail, None);
        bench.assert_right();
        bench.set_module("large", &large(60 << 20));
        let grading = bench.grade("large");
        assert_eq!(decided(&grading), (Memory, false));
        assert_eq!(grading.detail["reason"], json!(memory_exceeded(memory_mib)));
        bench.assert_right();
    }
    // With enough memory the module is judged incorrect.
    let bench = Bench::new(2_000, jail(), None);
    bench.set_module("large", &large(60 << 20));
    assert_eq!(bench.grade("large").verdict, Incorrect);
}

/// Not a test by itself: a helper process that holds a grader until it is killed.
#[test]
fn helper_process_holds_a_grader() {
    let Some(memory_mib) = std::env::var_os("RAPID_TEST_HOLD") else {
        return;
    };
    let memory_mib: u64 = memory_mib.to_str().unwrap().parse().unwrap();
    let jail = match memory_mib {
        507 => jail(),
        _ => JailChoice::None,
    };
    let bench = Bench::new(memory_mib, jail, None);
    bench.assert_right();
    println!("it holds one");
    loop {
        std::thread::park();
    }
}

#[test]
fn no_process_remains_after_the_verifier_is_killed() {
    for memory_mib in [507, 508] {
        let mut held = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "lean_kernel::helper_process_holds_a_grader",
                "--nocapture",
            ])
            .env("RAPID_TEST_HOLD", memory_mib.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(held.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("it holds one")));
        assert_eq!(kernels(memory_mib).len(), 1);
        held.kill().unwrap();
        held.wait().unwrap();
        until(|| kernels(memory_mib).is_empty());
    }
}

/// A stand-in for the kernel. Its mode says how it behaves.
fn stand_in(mode: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::copy(test_file("stand_in_kernel.py"), file("kernel")).unwrap();
    std::fs::write(file("mode"), mode).unwrap();
    let hello = concat!("rapid-verifier kernel ", env!("CARGO_PKG_VERSION"));
    std::fs::write(file("hello"), hello).unwrap();
    folder
}

/// The grading of a proof by a stand-in with this mode, and the requests after the first to the stand-in, separated by spaces.
fn judged_by(mode: &str) -> (Grading, String) {
    let folder = stand_in(mode);
    let kernel = folder.path().join("kernel");
    let bench = Bench::new(500, JailChoice::None, Some(&kernel));
    let grading = bench.grade("proved");
    let requests = std::fs::read_to_string(folder.path().join("asked")).unwrap();
    let requests: Vec<&str> = requests.lines().skip(1).collect();
    (grading, requests.join(" "))
}

#[test]
fn a_proof_that_ends_a_process_is_tried_in_another_and_never_unavailable() {
    let failed = "the kernel failed on this proof; please report it with the proof";
    let (memory, any) = (&memory_exceeded(500)[..], "");
    let once = "statement proof";
    let again = "statement proof statement proof";
    let twice = "statement proof statement proof statement alone";
    for (mode, decision, requests, why) in [
        ("killed", (Memory, false), twice, memory),
        ("memory", (Memory, false), twice, memory),
        ("stack", (Incorrect, false), twice, failed),
        ("another", (Incorrect, false), twice, failed),
        ("forged", (Incorrect, false), twice, failed),
        ("unfollowed", (Incorrect, false), twice, failed),
        ("long", (Incorrect, false), twice, failed),
        ("babble", (Incorrect, false), twice, failed),
        ("killed-once", (Correct, false), again, any),
        ("well", (Correct, true), once, any),
        // A panic is a valid response, so one try is enough.
        ("panic", (Incorrect, true), once, any),
    ] {
        let (grading, asked) = judged_by(mode);
        assert_eq!(decided(&grading), decision, "{mode}");
        assert_eq!(asked, requests, "{mode}");
        assert!(why == any || grading.detail["reason"] == why, "{mode}");
    }
}

#[test]
fn a_statement_that_ends_the_process_makes_its_proofs_unavailable() {
    let (grading, _) = judged_by("all");
    assert_unavailable_now(&grading);
}

#[test]
fn a_kernel_that_cannot_be_started_is_named_with_a_remedy() {
    let folder = stand_in("well");
    std::fs::write(folder.path().join("hello"), "rapid-verifier kernel 0.0.0").unwrap();
    for (program, says) in [
        (PathBuf::from("/nowhere/rapid-verifier"), "lean.jail"),
        (PathBuf::from("/bin/false"), "lean.jail"),
        (folder.path().join("kernel"), "start the service again"),
    ] {
        for choice in [jail(), JailChoice::None] {
            if choice == JailChoice::Bubblewrap && says != "lean.jail" {
                continue;
            }
            let grading = Bench::new(500, choice, Some(&program)).grade("proved");
            assert_unavailable_now(&grading);
            let reason = grading.detail["reason"].as_str().unwrap();
            for says in [says, program.to_str().unwrap()] {
                assert!(reason.contains(says), "{reason}");
            }
        }
    }
}
