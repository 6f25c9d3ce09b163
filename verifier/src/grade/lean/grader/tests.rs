use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use sandboxes::lean::{Bounds, Jail, Program};
use verifier_api::Verdict::{Correct, Incorrect, Malformed, Memory, Timeout, Unavailable};

use super::*;
use crate::fake_lean::{FakeLean, message};
use crate::grade::lean::{AxiomsChoice, Backend, JailChoice, LeanSettings, settings};

/// The output of a real Lean for one of the kernel's test modules.
fn module(name: &str) -> Compiled {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernel/tests/modules");
    let file = folder.join(name).join("Proof");
    let files = ["olean", "olean.server", "olean.private"]
        .map(|extension| std::fs::read(file.with_extension(extension)).unwrap());
    Compiled {
        messages: Messages::default(),
        files: files.to_vec(),
    }
}

/// The output of a Lean that reports an error.
fn refused(line: usize, error: &str) -> Compiled {
    Compiled {
        messages: Messages {
            header: Vec::new(),
            body: vec![message(Severity::Error, line, error)],
        },
        files: Vec::new(),
    }
}

const HEADER: &str = "prelude\n\nuniverse u\n";

/// A grader with a Lean that compiles the statement correctly, and returns a test's results for proofs.
fn grader_for_proofs(
    compile: impl Fn(&str) -> Result<Compiled, LeanError> + Send + Sync + 'static,
) -> (LeanGrader, Arc<FakeLean>) {
    grader_with_lean(move |_, body| match body.contains("sorry") {
        true => Ok(module("asked")),
        false => compile(body),
    })
}

fn grader_with_lean(
    compile: impl Fn(&str, &str) -> Result<Compiled, LeanError> + Send + Sync + 'static,
) -> (LeanGrader, Arc<FakeLean>) {
    let lean = FakeLean::new(move |header, body, _| compile(header, body));
    let shared: Arc<dyn Lean> = Arc::<FakeLean>::clone(&lean);
    let grader = LeanGrader::new(shared, vec![HEADER.to_owned()]);
    (grader, lean)
}

/// The verdict, and whether another try may succeed.
fn retry(grading: &Grading) -> (Verdict, bool) {
    (grading.verdict, grading.retryable)
}

/// The verdict, and whether it is deterministic.
fn decided(grading: &Grading) -> (Verdict, bool) {
    (grading.verdict, grading.deterministic)
}

fn task(header: &str) -> LeanTask {
    LeanTask {
        header: header.to_owned(),
        statement: "theorem swap (p q : Prop) (h : And p q) : And q p := by".to_owned(),
    }
}

#[test]
fn a_proof_that_the_kernel_accepts_is_correct_and_lists_its_axioms() {
    let (grader, lean) = grader_for_proofs(|_| Ok(module("proved")));
    for _ in 0..2 {
        let grading = grader.grade(&task(HEADER), "exact ⟨h.2, h.1⟩");
        assert_eq!(grading.verdict, Correct);
        assert!(grading.deterministic);
        let accepted = json!({ "assurance": "rechecked", "axioms": [] });
        assert_eq!(grading.detail, accepted);
    }
    let inputs = lean.inputs.lock().unwrap();
    let sorry = inputs.iter().filter(|(_, body)| body.contains("sorry"));
    let counts = (inputs.len(), sorry.count());
    assert_eq!(counts, (3, 1), "a statement is compiled once");
    assert!(inputs.iter().all(|(header, _)| header == HEADER.trim_end()));
}

/// A process that has run a proof can be made to print any messages and to write any compiled module.
#[test]
fn lean_messages_do_not_decide_the_verdict() {
    let redefined = "it defines `And.intro` differently than the statement does";
    for (left, why) in [
        ("assumed", "`cheat`: it is assumed, not proved"),
        ("another", "what is proved is not what was asked for"),
        ("missing", "it declares no theorem `swap`"),
        ("redefined", redefined),
    ] {
        let (grader, _) = grader_for_proofs(move |_| Ok(module(left)));
        let grading = grader.grade(&task(HEADER), "rfl");
        let found = (grading.verdict, grading.detail["reason"].as_str());
        assert_eq!(found, (Incorrect, Some(why)), "{left}");
    }
    let zeros = vec![b"olean".to_vec(), vec![0; 100]];
    for files in [vec![], vec![Vec::new()], zeros] {
        let (grader, _) = grader_for_proofs(move |_| {
            Ok(Compiled {
                files: files.clone(),
                ..module("proved")
            })
        });
        let grading = grader.grade(&task(HEADER), "rfl");
        assert_eq!(grading.verdict, Incorrect, "{}", grading.detail);
    }
}

#[test]
fn an_error_of_lean_is_shown_with_its_line() {
    let (grader, _) = grader_for_proofs(|body| {
        let index = body.lines().position(|line| line.contains("omega"));
        let line = index.unwrap() + 1;
        Ok(refused(line, "omega could not prove the goal"))
    });
    let grading = grader.grade(&task(HEADER), "intro x\nomega");
    let (verdict, detail) = (grading.verdict, grading.detail);
    assert_eq!(verdict, Incorrect);
    assert_eq!(detail["line"], 3, "the theorem's own line is the first");
    let shown = &detail["messages"][0]["text"];
    assert_eq!(*shown, "omega could not prove the goal");
}

#[test]
fn refused_texts_never_reach_lean() {
    let (grader, lean) = grader_for_proofs(|_| Ok(module("proved")));
    let long = "(".repeat(MAX_TEXT_BYTES + 1);
    let too_long = "more than 1048576 bytes";
    let other = "theorem other : True := trivial";
    let notation = "import Mathlib\nlocal notation \"ℕ\" => Unit";
    for (header, completion, verdict, says) in [
        (HEADER, "sorry", Incorrect, "sorry"),
        (HEADER, "#eval 1", Incorrect, "#"),
        (HEADER, "", Malformed, "no proof"),
        (HEADER, "<think>\nrfl", Malformed, "within its thought"),
        (HEADER, other, Malformed, "not `swap`"),
        (HEADER, &long, Malformed, too_long),
        // A header that is not listed is checked like a proof.
        ("axiom cheat : False", "rfl", Unavailable, "header"),
        (notation, "rfl", Unavailable, "header"),
        ("#eval 1", "rfl", Unavailable, "header"),
        (&long, "rfl", Unavailable, too_long),
    ] {
        let grading = grader.grade(&task(header), completion);
        assert_eq!(retry(&grading), (verdict, false), "{}", grading.detail);
        let reason = grading.detail["reason"].as_str().unwrap();
        assert!(reason.contains(says), "{reason}");
    }
    assert_eq!(lean.runs(), 0);
    let grading = grader.grade(&task(&format!("{HEADER}\n")), "rfl");
    assert_eq!(grading.verdict, Correct);
}

#[test]
fn a_proof_that_a_limit_ends_is_never_unavailable() {
    let nothing = Ok(Compiled::default());
    for (failed, verdict, tries) in [
        (Err(LeanError::Timeout(60)), Timeout, 2),
        (Err(LeanError::Memory(100)), Memory, 2),
        (Err(LeanError::Hidden), Incorrect, 2),
        // The machine may have had no memory for two tries within a second, or the proof forged these.
        (Err(LeanError::Crashed("overflow".into())), Incorrect, 3),
        (Err(LeanError::Header("no file".into())), Incorrect, 3),
        (nothing, Incorrect, 3),
        // A looping proof would hold a worker twice as long, and other work of the machine is not the cause.
        (Err(LeanError::ProcessorTime(60)), Timeout, 1),
        (Err(LeanError::TooMany(64, "processes")), Incorrect, 1),
        (Err(LeanError::Output(64)), Incorrect, 1),
    ] {
        for (errors, decision) in [
            (usize::MAX, (verdict, false)),
            // The last try counts.
            (tries - 1, (Correct, tries == 1)),
        ] {
            let (failed, left) = (failed.clone(), Mutex::new(errors));
            let (grader, lean) = grader_for_proofs(move |_| {
                let mut left = left.lock().unwrap();
                if *left == 0 {
                    return Ok(module("proved"));
                }
                *left -= 1;
                failed.clone()
            });
            let grading = grader.grade(&task(HEADER), "rfl");
            assert_eq!(decided(&grading), decision);
            let inputs = lean.inputs.lock().unwrap();
            let proofs = inputs.iter().filter(|(_, body)| !body.contains("sorry"));
            assert_eq!(proofs.count(), tries);
        }
    }
}

#[test]
fn a_snippet_may_print_a_thousand_messages() {
    for (count, verdict) in [(1000, Correct), (1001, Incorrect)] {
        let (grader, _) = grader_with_lean(move |_, _| {
            let mut compiled = module("proved");
            compiled.messages.body = vec![message(Severity::Information, 1, ""); count];
            Ok(compiled)
        });
        let grading = grader.in_jail().run_snippet("#eval 1", 60);
        assert_eq!(grading.verdict, verdict, "{}", grading.detail);
    }
}

/// The system may end a checker because the machine has no memory.
#[test]
fn a_checker_that_fails_is_started_again_and_its_failure_is_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let once = |name: &str, end: &str| {
        let mark = folder.path().join(name);
        format!("mkdir {} && {end}; exit 0", mark.display())
    };
    // A Lean program that has no memory ends with 1 too.
    for (script, verdict, deterministic) in [
        (once("killed", "kill -s KILL $$"), Correct, false),
        (once("failed", "exit 1"), Correct, true),
        ("kill -s KILL $$".to_owned(), Incorrect, false),
        ("exit 1".to_owned(), Incorrect, false),
    ] {
        let second_checker = SecondChecker {
            lean: program(),
            command: ["sh", "-c", &script].map(str::to_owned).to_vec(),
            bounds: Bounds {
                seconds: 60,
                start_seconds: 60,
                memory_mib: 8_192,
            },
        };
        let (grader, _) = grader_for_proofs(|_| Ok(module("proved")));
        let grader = LeanGrader {
            second_checker: Some(second_checker),
            ..grader
        };
        let grading = grader.grade(&task(HEADER), "exact ⟨h.2, h.1⟩");
        let (found, detail) = (decided(&grading), &grading.detail);
        assert_eq!(found, (verdict, deterministic), "{script}: {detail}");
    }
}

/// The machine may have been out of memory when Lean loaded a snippet's imports.
#[test]
fn a_snippet_with_failing_imports_is_run_again_and_not_stored() {
    let code = "import Mathlib\n\nexample : 1 = 1 := rfl";
    let failed = |line| refused(line, "failed to read file");
    for (line, runs) in [(1, 2), (3, 1)] {
        let (grader, lean) = grader_with_lean(move |_, _| Ok(failed(line)));
        let grading = grader.in_jail().run_snippet(code, 60);
        assert_eq!(decided(&grading), (Incorrect, runs == 1));
        assert_eq!(lean.runs(), runs);
    }
    let first = Mutex::new(Some(failed(1)));
    let (grader, _) = grader_with_lean(move |_, _| {
        let failed = first.lock().unwrap().take();
        Ok(failed.unwrap_or_else(|| module("proved")))
    });
    let grading = grader.in_jail().run_snippet(code, 60);
    assert_eq!(decided(&grading), (Correct, false));
}

#[test]
fn a_proof_is_unavailable_if_lean_fails_on_the_statement_too() {
    for (error, retryable) in [
        (LeanError::Crashed("x".into()), true),
        (LeanError::Timeout(1), true),
        (LeanError::Missing("x".into()), false),
        (LeanError::Header("x".into()), true),
    ] {
        let (grader, _) = grader_with_lean(move |_, _| Err(error.clone()));
        let grading = grader.grade(&task(HEADER), "rfl");
        assert_eq!(retry(&grading), (Unavailable, retryable));
    }
    // Lean compiles the statement once, and fails from then on.
    for error in [
        LeanError::Crashed("no room".into()),
        LeanError::Header("no room".into()),
    ] {
        let first = Mutex::new(Some(module("asked")));
        let (grader, _) = grader_with_lean(move |_, _| {
            let first = first.lock().unwrap().take();
            first.ok_or_else(|| error.clone())
        });
        let grading = grader.grade(&task(HEADER), "rfl");
        assert_eq!(retry(&grading), (Unavailable, true));
    }
}

#[test]
fn a_statement_that_lean_does_not_accept_is_unavailable() {
    let error = || Ok(refused(1, "unknown identifier"));
    let (grader, _) = grader_with_lean(move |_, _| error());
    let grading = grader.grade(&task(HEADER), "rfl");
    assert_eq!(retry(&grading), (Unavailable, false));
    // The same error in a proof is an error of the proof.
    let (grader, _) = grader_for_proofs(move |_| error());
    assert_eq!(grader.grade(&task(HEADER), "rfl").verdict, Incorrect);
}

#[test]
fn the_digest_depends_on_every_setting_that_affects_verdicts() {
    let with = |change: fn(&mut LeanSettings)| {
        let mut settings = LeanSettings {
            command: vec!["lean".to_owned(), "--json".to_owned()],
            jail: JailChoice::None,
            ..LeanSettings::default()
        };
        change(&mut settings);
        LeanGrader::open(&settings, 1).unwrap().identity.digest
    };
    let plain = with(|_| {});
    assert_eq!(plain, with(|settings| settings.processes = 7));
    for other in [
        with(|settings| settings.seconds = 7),
        with(|settings| settings.revision = "4.28".to_owned()),
        with(|settings| settings.axioms = AxiomsChoice::Named),
        with(|settings| settings.checker = vec!["lean4checker".to_owned()]),
        with(|settings| settings.command.push("-q".to_owned())),
        with(|settings| settings.dir = Some("/".into())),
    ] {
        assert_ne!(plain, other);
    }
}

/// A program without a jail.
fn program() -> Program {
    Program {
        command: vec!["lean".to_owned()],
        env: Vec::new(),
        dir: None,
        jail: Jail::None,
        secrets: Vec::new(),
    }
}

#[test]
fn the_digest_depends_on_variables_and_where_modules_are() {
    let program = program();
    let digest = |library: &str, toolchain: &str| {
        let libraries = [PathBuf::from(library)];
        let inherited = [(OsString::from("ELAN_TOOLCHAIN"), OsString::from(toolchain))];
        let settings = LeanSettings::default();
        settings::identity(&settings, &program, "", &libraries, &inherited).digest
    };
    let plain = digest("/lib", "v4.28.0");
    assert_eq!(plain, digest("/lib", "v4.28.0"));
    assert_ne!(plain, digest("/other/lib", "v4.28.0"));
    assert_ne!(plain, digest("/lib", "v4.29.0"));
}

#[test]
fn without_lean_the_error_has_a_remedy() {
    for (backend, remedy) in [
        (LeanSettings::default().backend, "lean.project"),
        (Backend::None, "lean.backend"),
    ] {
        let settings = LeanSettings {
            backend,
            ..LeanSettings::default()
        };
        let error = LeanGrader::open(&settings, 1).err().unwrap();
        assert!(error.contains(remedy), "{error}");
    }
}
