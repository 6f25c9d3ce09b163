use std::sync::Mutex;

use sandboxes::Identity;
use sandboxes::lean::Position;

use super::*;

type Answer = dyn Fn(&str, &str) -> Result<Vec<Message>, LeanError> + Send + Sync;

/// Answers as a Lean would that accepts everything, but for what a test lays over it; keeps what it was given.
struct Scripted {
    answer: Box<Answer>,
    given: Mutex<Vec<(String, String)>>,
}

fn message(severity: Severity, line: usize, data: &str) -> Message {
    let pos = Position { line, column: 2 };
    Message {
        severity,
        pos,
        data: data.to_owned(),
    }
}

impl Lean for Scripted {
    fn run(&self, header: &str, body: &str) -> Result<Said, LeanError> {
        self.given
            .lock()
            .unwrap()
            .push((header.to_owned(), body.to_owned()));
        let mut said = (self.answer)(header, body)?;
        let last = body.trim_end().lines().last().unwrap();
        let name = last.strip_prefix("#print axioms ").unwrap();
        let line = body.trim_end().lines().count();
        said.push(message(
            Severity::Information,
            line,
            &format!("'{name}' depends on axioms: [propext]"),
        ));
        Ok(Said {
            header: Vec::new(),
            body: said,
        })
    }
}

fn scripted(
    answer: impl Fn(&str, &str) -> Result<Vec<Message>, LeanError> + Send + Sync + 'static,
) -> (LeanGrader, Arc<Scripted>) {
    let lean = Arc::new(Scripted {
        answer: Box::new(answer),
        given: Mutex::default(),
    });
    let grader = LeanGrader {
        lean: Arc::clone(&lean) as Arc<dyn Lean>,
        replay: None,
        axioms: Axioms::Printed,
        headers: vec!["import Mathlib\nlocal notation \"ℝ\" => Real".to_owned()],
        identity: Identity {
            backend: "lean".to_owned(),
            interpreter: "scripted".to_owned(),
            digest: String::new(),
        },
    };
    (grader, lean)
}

fn task(header: &str) -> LeanTask {
    LeanTask {
        header: header.to_owned(),
        statement: "theorem t (n : Nat) : n + 0 = n := by".to_owned(),
    }
}

#[test]
fn what_lean_accepts_is_correct_and_says_what_it_rests_on() {
    let (grader, lean) = scripted(|_, _| Ok(vec![]));
    let grading = grader.grade(&task("import Foo"), "rfl");
    assert_eq!(grading.verdict, Verdict::Correct);
    assert_eq!(
        grading.detail,
        json!({ "assurance": "elaborated", "axioms": ["propext"] })
    );
    let given = lean.given.lock().unwrap();
    assert_eq!(given.len(), 1);
    assert_eq!(given[0].0, "import Foo");
}

#[test]
fn what_lean_does_not_accept_says_where() {
    let (grader, _) = scripted(|_, body| {
        let line = body
            .lines()
            .position(|line| line.contains("omega"))
            .unwrap()
            + 1;
        Ok(vec![message(
            Severity::Error,
            line,
            "omega could not prove the goal",
        )])
    });
    let grading = grader.grade(&task(""), "intro x\nomega");
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
    let (grader, lean) = scripted(|_, _| Ok(vec![]));
    for (completion, verdict) in [
        ("sorry", Verdict::Incorrect),
        ("#eval 1", Verdict::Incorrect),
        ("", Verdict::Malformed),
        ("<think>\nrfl", Verdict::Malformed),
        ("theorem other : True := trivial", Verdict::Malformed),
    ] {
        assert_eq!(
            grader.grade(&task(""), completion).verdict,
            verdict,
            "{completion}"
        );
    }
    assert_eq!(lean.given.lock().unwrap().len(), 0);
}

#[test]
fn a_header_is_as_hostile_as_a_proof_unless_it_is_listed() {
    let (grader, lean) = scripted(|_, _| Ok(vec![]));
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
        assert!(
            grading.detail["reason"]
                .as_str()
                .unwrap()
                .contains("header"),
            "{header}"
        );
    }
    assert_eq!(lean.given.lock().unwrap().len(), 0);
    let listed = "import Mathlib\nlocal notation \"ℝ\" => Real\n";
    assert_eq!(grader.grade(&task(listed), "rfl").verdict, Verdict::Correct);
}

#[test]
fn what_a_bound_ends_twice_is_over_and_once_is_undecided() {
    for (error, verdict) in [
        (LeanError::Timeout(60), Verdict::Timeout),
        (LeanError::Memory(100), Verdict::Memory),
    ] {
        let twice = error.clone();
        let (grader, lean) = scripted(move |_, _| Err(twice.clone()));
        let grading = grader.grade(&task(""), "rfl");
        assert_eq!(
            (grading.verdict, grading.reward(), grading.deterministic),
            (verdict, Some(0.0), false)
        );
        assert_eq!(lean.given.lock().unwrap().len(), 2);

        let first = Mutex::new(Some(error));
        let (grader, _) =
            scripted(move |_, _| first.lock().unwrap().take().map_or(Ok(vec![]), Err));
        let grading = grader.grade(&task(""), "rfl");
        assert_eq!(
            (grading.verdict, grading.reward(), grading.retryable),
            (Verdict::Unavailable, None, true)
        );
    }
}

#[test]
fn a_lean_that_fails_says_nothing_of_the_proof() {
    for (error, retryable) in [
        (LeanError::Crashed("x".into()), true),
        (LeanError::Missing("x".into()), false),
    ] {
        let (grader, _) = scripted(move |_, _| Err(error.clone()));
        let grading = grader.grade(&task(""), "rfl");
        assert_eq!(
            (grading.verdict, grading.retryable),
            (Verdict::Unavailable, retryable)
        );
    }
}

#[test]
fn a_task_that_lean_does_not_accept_is_nobodys_wrong_answer() {
    let (grader, _) = scripted(|_, _| Ok(vec![message(Severity::Error, 1, "unknown identifier")]));
    let grading = grader.grade(&task(""), "rfl");
    assert_eq!(
        (grading.verdict, grading.retryable),
        (Verdict::Unavailable, false)
    );
}

#[test]
fn a_lean_that_accepts_everything_is_found_out() {
    let (grader, _) = scripted(|_, _| Ok(vec![]));
    let error = grader.try_out().unwrap_err();
    assert!(error.contains("should be Incorrect"), "{error}");
    let (grader, lean) = scripted(|_, body| {
        let wrong = body.contains("exact trivial");
        Ok(wrong
            .then(|| message(Severity::Error, 7, "type mismatch"))
            .into_iter()
            .collect())
    });
    grader.try_out().unwrap();
    assert!(
        lean.given.lock().unwrap()[0].1.contains("positivity"),
        "the first header imports Mathlib, so what is tried needs it"
    );
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
    assert!(
        LeanGrader::open(&none, 1)
            .err()
            .unwrap()
            .contains("lean.backend")
    );
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
        with(|settings| settings.axioms = Axioms::Scanned),
        with(|settings| settings.checker = vec!["lean4checker".to_owned()]),
        with(|settings| settings.command.push("-q".to_owned())),
    ] {
        assert_ne!(plain, other);
    }
}
