use std::path::Path;
use std::sync::Mutex;

use sandboxes::Identity;
use sandboxes::lean::Position;

use super::*;

type Answer = dyn Fn(&str, &str) -> Result<Compiled, LeanError> + Send + Sync;

/// Answers as a test says; keeps what it was given.
struct Scripted {
    answer: Box<Answer>,
    given: Mutex<Vec<(String, String)>>,
}

impl Lean for Scripted {
    fn compile(&self, header: &str, body: &str) -> Result<Compiled, LeanError> {
        let given = (header.to_owned(), body.to_owned());
        self.given.lock().unwrap().push(given);
        (self.answer)(header, body)
    }
}

fn message(severity: Severity, line: usize, data: &str) -> Message {
    let pos = Position { line, column: 2 };
    Message {
        severity,
        pos,
        data: data.to_owned(),
    }
}

/// What real Lean compiled of one of the kernel's own modules.
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

/// What Lean says where it compiles nothing.
fn refused(messages: Vec<Message>) -> Compiled {
    Compiled {
        messages: Messages {
            header: vec![],
            body: messages,
        },
        files: Vec::new(),
    }
}

const HEADER: &str = "prelude\n\nuniverse u\n";

/// A grader whose Lean compiles the statement as it should, and answers to proofs as a test says.
fn scripted(
    answer: impl Fn(&str) -> Result<Compiled, LeanError> + Send + Sync + 'static,
) -> (LeanGrader, Arc<Scripted>) {
    let answer = move |_: &str, body: &str| {
        if body.contains("sorry") {
            Ok(module("asked"))
        } else {
            answer(body)
        }
    };
    graded_by(answer)
}

fn graded_by(
    answer: impl Fn(&str, &str) -> Result<Compiled, LeanError> + Send + Sync + 'static,
) -> (LeanGrader, Arc<Scripted>) {
    let lean = Arc::new(Scripted {
        answer: Box::new(answer),
        given: Mutex::default(),
    });
    let identity = Identity {
        backend: "lean".to_owned(),
        interpreter: "scripted".to_owned(),
        digest: String::new(),
    };
    let grader = LeanGrader::new(
        Arc::clone(&lean) as Arc<dyn Lean>,
        Axioms::Followed,
        vec![HEADER.to_owned()],
        Vec::new(),
        identity,
    );
    (grader, lean)
}

fn task(header: &str) -> LeanTask {
    LeanTask {
        header: header.to_owned(),
        statement: "theorem swap (p q : Prop) (h : And p q) : And q p := by".to_owned(),
    }
}

#[test]
fn what_the_kernel_accepts_is_correct_and_says_what_it_rests_on() {
    let (grader, lean) = scripted(|_| Ok(module("proved")));
    for _ in 0..2 {
        let grading = grader.grade(&task(HEADER), "exact ⟨h.2, h.1⟩");
        assert_eq!(grading.verdict, Verdict::Correct);
        assert!(grading.deterministic);
        assert_eq!(
            grading.detail,
            json!({ "assurance": "rechecked", "axioms": [] })
        );
    }
    let given = lean.given.lock().unwrap();
    let sorry = given.iter().filter(|(_, body)| body.contains("sorry"));
    assert_eq!(
        (given.len(), sorry.count()),
        (3, 1),
        "a statement is judged once"
    );
    assert!(given.iter().all(|(header, _)| header == HEADER.trim_end()));
}

/// A process that has run a proof may say and leave what it likes: that it went well, and a compiled module without a fault.
#[test]
fn what_lean_says_makes_nothing_right() {
    for (left, why) in [
        ("assumed", "`cheat`: it is assumed, not proved"),
        ("another", "what is proved is not what was asked for"),
        ("missing", "it declares no theorem `swap`"),
        (
            "redefined",
            "it defines `And.intro` differently than the statement does",
        ),
    ] {
        let (grader, _) = scripted(move |_| Ok(module(left)));
        let grading = grader.grade(&task(HEADER), "rfl");
        assert_eq!(
            (grading.verdict, grading.detail["reason"].as_str()),
            (Verdict::Incorrect, Some(why)),
            "{left}"
        );
    }
    for files in [
        vec![],
        vec![Vec::new()],
        vec![b"olean".to_vec(), vec![0; 100]],
    ] {
        let (grader, _) = scripted(move |_| {
            Ok(Compiled {
                files: files.clone(),
                ..module("proved")
            })
        });
        let grading = grader.grade(&task(HEADER), "rfl");
        assert_eq!(grading.verdict, Verdict::Incorrect, "{}", grading.detail);
    }
}

#[test]
fn what_lean_does_not_accept_says_where() {
    let (grader, _) = scripted(|body| {
        let line = body
            .lines()
            .position(|line| line.contains("omega"))
            .unwrap()
            + 1;
        let error = message(Severity::Error, line, "omega could not prove the goal");
        Ok(refused(vec![error]))
    });
    let grading = grader.grade(&task(HEADER), "intro x\nomega");
    assert_eq!(
        (grading.verdict, grading.reward()),
        (Verdict::Incorrect, Some(0.0))
    );
    assert_eq!(
        grading.detail["line"], 3,
        "the theorem's own line is the first"
    );
    assert_eq!(
        grading.detail["messages"][0]["text"],
        "omega could not prove the goal"
    );
}

#[test]
fn what_no_proof_needs_never_reaches_lean() {
    let (grader, lean) = scripted(|_| Ok(module("proved")));
    for (completion, verdict) in [
        ("sorry", Verdict::Incorrect),
        ("#eval 1", Verdict::Incorrect),
        ("", Verdict::Malformed),
        ("<think>\nrfl", Verdict::Malformed),
        ("theorem other : True := trivial", Verdict::Malformed),
    ] {
        assert_eq!(
            grader.grade(&task(HEADER), completion).verdict,
            verdict,
            "{completion}"
        );
    }
    assert_eq!(lean.given.lock().unwrap().len(), 0);
}

#[test]
fn a_header_is_as_hostile_as_a_proof_unless_it_is_listed() {
    let (grader, lean) = scripted(|_| Ok(module("proved")));
    for header in [
        "axiom cheat : False",
        "import Mathlib\nlocal notation \"ℕ\" => Unit",
        "#eval 1",
    ] {
        let grading = grader.grade(&task(header), "rfl");
        assert_eq!(
            (grading.verdict, grading.retryable),
            (Verdict::Unavailable, false),
            "{header}"
        );
        let reason = grading.detail["reason"].as_str().unwrap();
        assert!(reason.contains("header"), "{header}");
    }
    assert_eq!(lean.given.lock().unwrap().len(), 0);
    let grading = grader.grade(&task(&format!("{HEADER}\n")), "rfl");
    assert_eq!(grading.verdict, Verdict::Correct);
}

#[test]
fn what_a_bound_ends_is_tried_once_more_and_never_masked() {
    for (error, verdict) in [
        (LeanError::Timeout(60), Verdict::Timeout),
        (LeanError::Memory(100), Verdict::Memory),
        (
            LeanError::Crashed("stack overflow".into()),
            Verdict::Incorrect,
        ),
    ] {
        let twice = error.clone();
        let (grader, lean) = scripted(move |_| Err(twice.clone()));
        let grading = grader.grade(&task(HEADER), "rfl");
        assert_eq!(
            (grading.verdict, grading.reward(), grading.deterministic),
            (verdict, Some(0.0), false)
        );
        let given = lean.given.lock().unwrap();
        let proofs = given.iter().filter(|(_, body)| !body.contains("sorry"));
        assert_eq!(proofs.count(), 2);

        let first = Mutex::new(Some(error));
        let (grader, _) = scripted(move |_| {
            first
                .lock()
                .unwrap()
                .take()
                .map_or(Ok(module("proved")), Err)
        });
        let grading = grader.grade(&task(HEADER), "rfl");
        assert_eq!(
            (grading.verdict, grading.deterministic),
            (Verdict::Correct, false),
            "a proof is one however often Lean was asked"
        );
    }
}

#[test]
fn a_lean_that_fails_on_the_statement_too_says_nothing_of_the_proof() {
    for (error, retryable) in [
        (LeanError::Crashed("x".into()), true),
        (LeanError::Timeout(1), true),
        (LeanError::Missing("x".into()), false),
    ] {
        let (grader, _) = graded_by(move |_, _| Err(error.clone()));
        let grading = grader.grade(&task(HEADER), "rfl");
        assert_eq!(
            (grading.verdict, grading.retryable),
            (Verdict::Unavailable, retryable)
        );
    }
    // It worked when the statement was judged, and fails from then on.
    let asked = Mutex::new(Some(module("asked")));
    let (grader, _) = graded_by(move |_, _| {
        let asked = asked.lock().unwrap().take();
        asked.ok_or(LeanError::Crashed("no room".into()))
    });
    let grading = grader.grade(&task(HEADER), "rfl");
    assert_eq!(
        (grading.verdict, grading.retryable),
        (Verdict::Unavailable, true)
    );
}

#[test]
fn a_task_that_lean_does_not_accept_is_nobodys_wrong_answer() {
    let (grader, _) = graded_by(|_, _| {
        let error = message(Severity::Error, 1, "unknown identifier");
        Ok(refused(vec![error]))
    });
    let grading = grader.grade(&task(HEADER), "rfl");
    assert_eq!(
        (grading.verdict, grading.retryable),
        (Verdict::Unavailable, false)
    );
    // What a proof says of itself makes no task bad.
    let (grader, _) = scripted(|_| {
        Ok(refused(vec![message(
            Severity::Error,
            1,
            "unknown identifier",
        )]))
    });
    let grading = grader.grade(&task(HEADER), "rfl");
    assert_eq!(grading.verdict, Verdict::Incorrect);
}

#[test]
fn without_lean_the_remedy_is_in_words() {
    let error = LeanGrader::open(&Settings::default(), 1).err().unwrap();
    assert!(
        error.contains("sandboxes/lean/README.md") && error.contains("lean.project"),
        "{error}"
    );
    let none = Settings {
        backend: Backend::None,
        ..Settings::default()
    };
    let error = LeanGrader::open(&none, 1).err().unwrap();
    assert!(error.contains("lean.backend"), "{error}");
}

#[test]
fn another_lean_makes_other_verdicts() {
    let with = |change: fn(&mut Settings)| {
        let mut settings = Settings {
            command: vec!["lean".to_owned(), "--json".to_owned()],
            jail: JailChoice::None,
            ..Settings::default()
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
    ] {
        assert_ne!(plain, other);
    }
}
