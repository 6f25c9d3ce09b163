//! MiniF2F's 488 statements: each makes a prompt, and each completion of it a body that Lean would be given. There is no Mathlib here: what a Lean that has it is asked, and
//! what a service without it answers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../datasets/tests/data/mod.rs"]
mod data;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use datasets::template::Template;
use datasets::{LeanTask, Task, TaskSpec};
use sandboxes::Identity;
use sandboxes::lean::{Lean, LeanError, Message, Position, Said, Severity};
use verifier::config::Config;
use verifier::grade::lean::{Axioms, LeanGrader, Settings};
use verifier::service::{Batch, Id, Question, judge};
use verifier_api::Verdict;

/// All of them, or the excerpt's dozen, and the folder that they are in.
fn tasks() -> (Vec<(Task, LeanTask)>, PathBuf) {
    let data::Records { folder, whole } = data::holding("minif2f").expect("there is an excerpt");
    let dataset = datasets::open("minif2f", Some(&folder)).unwrap();
    assert_eq!(
        dataset.train.len() + dataset.eval.len(),
        if whole { 488 } else { 12 }
    );
    let all = dataset.train.into_iter().chain(dataset.eval);
    let lean = |task: Task| match task.spec.clone() {
        TaskSpec::Lean(lean) => (task, lean),
        _ => panic!("{} is no theorem", task.id),
    };
    (all.map(lean).collect(), folder)
}

/// Accepts everything, and keeps it.
#[derive(Default)]
struct Recorder(Mutex<Vec<(String, String)>>);

impl Lean for Recorder {
    fn run(&self, header: &str, body: &str) -> Result<Said, LeanError> {
        self.0
            .lock()
            .unwrap()
            .push((header.to_owned(), body.to_owned()));
        let lines: Vec<&str> = body.trim_end().lines().collect();
        let name = lines
            .last()
            .unwrap()
            .strip_prefix("#print axioms ")
            .unwrap();
        let message = Message {
            severity: Severity::Information,
            pos: Position {
                line: lines.len(),
                column: 0,
            },
            data: format!("'{name}' depends on axioms: [propext, Classical.choice, Quot.sound]"),
        };
        Ok(Said {
            header: Vec::new(),
            body: vec![message],
        })
    }
}

#[test]
fn every_statement_makes_a_prompt_and_a_body() {
    let (tasks, _) = tasks();
    let template = Template::named("lean4").unwrap();
    let lean = Arc::new(Recorder::default());
    let grader = LeanGrader {
        lean: Arc::clone(&lean) as Arc<dyn Lean>,
        replay: None,
        axioms: Axioms::Printed,
        headers: Settings::default().headers,
        identity: Identity {
            backend: "lean".to_owned(),
            interpreter: String::new(),
            digest: String::new(),
        },
    };
    for (task, theorem) in &tasks {
        let prompt = template.render(task);
        assert!(prompt.contains("```lean4\nimport Mathlib"), "{prompt}");
        assert!(prompt.trim_end().ends_with(&theorem.statement), "{prompt}");
        // The model goes on in the prompt's block, or writes it out.
        for completion in [
            "  norm_num\n```\n".to_owned(),
            format!(
                "```lean4\n{}\n\n{}\n  norm_num\n```",
                theorem.header, theorem.statement
            ),
        ] {
            let grading = grader.grade(theorem, &completion);
            assert_eq!(
                grading.verdict,
                Verdict::Correct,
                "{}: {}",
                task.id,
                grading.detail
            );
            let (header, body) = lean.0.lock().unwrap().pop().unwrap();
            assert_eq!(header, theorem.header);
            assert!(body.contains(&theorem.statement), "{body}");
            assert!(!body.contains("import"), "{body}");
            let proposition = theorem
                .statement
                .split_once(char::is_whitespace)
                .unwrap()
                .1
                .split_once([' ', '\n', ':'])
                .unwrap()
                .1;
            assert_eq!(
                body.matches(proposition.trim_end_matches("by").trim())
                    .count(),
                2,
                "{body}"
            );
        }
        assert!(
            Settings::default().headers.contains(&theorem.header),
            "the header of {} is not kept",
            task.id
        );
    }
}

#[tokio::test]
async fn without_lean_no_proof_is_wrong_and_the_remedy_is_in_words() {
    let (tasks, folder) = tasks();
    let mut registry = verifier::registry::Registry::default();
    registry.add(datasets::open("minif2f", Some(&folder)).unwrap());
    let config = Config::default();
    let (service, _) =
        verifier::setup::with_registry(&config, None, registry, verifier::service::Kept::default())
            .unwrap();
    let none = verifier::graders::no_sandbox("not asked for".to_owned());
    let preparing = Arc::clone(&service);
    tokio::task::spawn_blocking(move || preparing.prepare(none))
        .await
        .unwrap();
    let questions: Vec<Question> = tasks
        .iter()
        .map(|(task, _)| Question {
            id: Id::Text(task.id.clone()),
            task: service.registry().get(&task.id).unwrap(),
            prompt: String::new(),
            completion: "norm_num".to_owned(),
            extent: verifier::grade::code::Extent::UntilFailure,
        })
        .collect();
    let batch = Batch::new(&service, questions);
    let judged = judge(&service, batch).await.unwrap();
    assert_eq!(judged.len(), tasks.len());
    for judgement in judged {
        assert_eq!(
            (judgement.verdict, judgement.reward, judgement.retryable),
            (Verdict::Unavailable, None, false)
        );
        let reason = judgement.detail["reason"].as_str().unwrap();
        assert!(reason.contains("sandboxes/lean/README.md"), "{reason}");
    }
}
