//! MiniF2F's 488 statements: each has a prompt, and each completion of it becomes a file for Lean. There is no Mathlib here, so this tests the input for a Lean with
//! Mathlib.

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::data;
use datasets::template::Template;
use datasets::{LeanTask, Task, TaskSpec};
use sandboxes::lean::{Compiled, Lean, LeanError, Message, Messages, Position, Severity};
use verifier::grade::lean::{LeanGrader, LeanSettings};
use verifier_api::Verdict;

/// All tasks, or the excerpt's dozen.
fn tasks() -> Vec<(Task, LeanTask)> {
    let data::Records { folder, whole } = data::holding("minif2f").expect("there is an excerpt");
    let dataset = datasets::open("minif2f", Some(&folder)).unwrap();
    assert_eq!(
        dataset.train.len() + dataset.eval.len(),
        if whole { 488 } else { 12 }
    );
    let all = dataset.train.into_iter().chain(dataset.eval);
    let lean = |task: Task| match task.spec.clone() {
        TaskSpec::Lean(lean) => (task, lean),
        _ => panic!("{} is not a theorem", task.id),
    };
    all.map(lean).collect()
}

/// A Lean that compiles every statement, refuses every proof, and records its inputs.
#[derive(Default)]
struct Recorder(Mutex<Vec<(String, String)>>);

impl Lean for Recorder {
    fn compile_within(&self, header: &str, body: &str, _: u64) -> Result<Compiled, LeanError> {
        let input = (header.to_owned(), body.to_owned());
        self.0.lock().unwrap().push(input);
        // The module of any statement will do, because no proof is compared with it.
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernel/tests/modules/asked");
        let file = std::fs::read(module.join("Proof.olean")).unwrap();
        let statement = body.trim_end().ends_with("sorry");
        let error = Message {
            severity: Severity::Error,
            pos: Position { line: 1, column: 0 },
            end: None,
            data: "unsolved goals".to_owned(),
        };
        Ok(Compiled {
            files: statement.then_some(file).into_iter().collect(),
            messages: Messages {
                header: Vec::new(),
                body: (!statement).then_some(error).into_iter().collect(),
            },
        })
    }
}

#[test]
fn every_statement_has_a_prompt_and_a_file_for_lean() {
    let tasks = tasks();
    let template = Template::named("lean4").unwrap();
    let lean = Arc::new(Recorder::default());
    let shared: Arc<dyn Lean> = Arc::<Recorder>::clone(&lean);
    let grader = LeanGrader::new(shared, LeanSettings::default().headers);
    for (task, theorem) in &tasks {
        let prompt = template.render(task);
        assert!(prompt.contains("```lean4\nimport Mathlib"), "{prompt}");
        assert!(prompt.trim_end().ends_with(&theorem.statement), "{prompt}");
        // The model continues the prompt's block, or writes a whole one.
        for completion in [
            "  norm_num\n```\n".to_owned(),
            format!(
                "```lean4\n{}\n\n{}\n  norm_num\n```",
                theorem.header, theorem.statement
            ),
        ] {
            let grading = grader.grade(theorem, &completion);
            // Lean was called, and refused the proof.
            let verdict = grading.verdict;
            assert_eq!(verdict, Verdict::Incorrect, "{}: {grading:?}", task.id);
            let (header, proof) = lean.0.lock().unwrap().pop().unwrap();
            assert_eq!(header, theorem.header);
            assert!(proof.starts_with(&theorem.statement), "{proof}");
            let other = ["import", "sorry"].map(|word| proof.contains(word));
            assert_eq!(other, [false, false], "{proof}");
        }
        let mut inputs = lean.0.lock().unwrap();
        let (_, statement) = inputs.pop().unwrap();
        assert!(inputs.is_empty(), "a statement is compiled once");
        drop(inputs);
        let alone = statement.trim_end().strip_suffix("sorry").unwrap();
        assert_eq!(alone.trim_end(), theorem.statement.trim_end());
        let listed = LeanSettings::default().headers;
        assert!(listed.contains(&theorem.header), "{}", task.id);
    }
}
