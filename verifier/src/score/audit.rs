//! Finds tasks with weak tests: tests that trivial programs pass. The programs are judged on each task like samples.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use datasets::python_name::method;
use datasets::{Dataset, TaskSpec};
use serde::Serialize;
use verifier_api::Judgement;

use super::{Sample, judge_samples};
use crate::grade::code::TestMode;
use crate::service::Service;

/// Constant results that weak tests may accept: results for empty arguments, and results that tests of a property expect.
const CONSTANTS: [&str; 9] = [
    "[]", "0", "''", "{}", "()", "set()", "None", "True", "False",
];
/// A function that empties the arguments that can be emptied.
const EMPTY_ARGUMENTS: &str = "
def _rapid_empty(values):
    for value in values:
        if isinstance(value, bytearray):
            value[:] = b''
        elif hasattr(value, 'clear'):
            value.clear()
";

/// A trivial program, which solves no task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TrivialProgram {
    /// Returns the same value for all arguments.
    Constant(&'static str),
    /// Empties its arguments, and returns the same value for all.
    Emptied(&'static str),
    /// Returns an object of its own class.
    Object,
    /// Raises.
    Raise,
}

impl TrivialProgram {
    fn all() -> impl Iterator<Item = TrivialProgram> {
        let constants = CONSTANTS.into_iter().flat_map(|value| {
            [
                TrivialProgram::Constant(value),
                TrivialProgram::Emptied(value),
            ]
        });
        constants.chain([TrivialProgram::Object, TrivialProgram::Raise])
    }

    fn program(self, entry_point: &str) -> String {
        if let Some((class, _, name)) = method(entry_point) {
            let function = self.program(name);
            return format!(
                "{function}\nclass {class}:\n    def __init__(self, *_):\n        pass\n    {name} = staticmethod({name})\n"
            );
        }
        let name = entry_point;
        let head = format!("def {name}(*args, **kwargs):\n");
        match self {
            TrivialProgram::Constant(value) => format!("{head}    return {value}\n"),
            TrivialProgram::Emptied(value) => {
                format!(
                    "{EMPTY_ARGUMENTS}\n{head}    _rapid_empty([*args, *kwargs.values()])\n    return {value}\n"
                )
            }
            TrivialProgram::Object => {
                format!("class _Rapid:\n    pass\n\n{head}    return _Rapid()\n")
            }
            TrivialProgram::Raise => format!("{head}    raise ValueError\n"),
        }
    }

    /// What the program does, and how to change tests that it passes.
    fn description_and_remedy(self) -> (String, &'static str) {
        match self {
            TrivialProgram::Constant(value) => (
                format!("returns {value} whatever it is given"),
                "expect more than one value",
            ),
            TrivialProgram::Emptied(value) => (
                format!("empties its arguments and returns {value}"),
                "compare with a literal or a copy, not with an argument that the program has had",
            ),
            TrivialProgram::Object => (
                "returns an object of its own, which is unequal to everything".to_owned(),
                "compare with `==`, not with `!=` alone",
            ),
            TrivialProgram::Raise => (
                "raises whatever it is given".to_owned(),
                "let no exception pass for a result",
            ),
        }
    }
}

/// A task with weak tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WeakTask {
    /// The task's id.
    pub task: String,
    /// What the trivial program does that passes tests.
    pub program: String,
    /// Number of tests that it passes.
    pub passed: u32,
    /// Number of all tests.
    pub total: u32,
    /// How to change the tests.
    pub remedy: &'static str,
}

/// The result of an audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// The data set.
    pub dataset: String,
    /// Number of audited tasks, which are functions.
    pub tasks: usize,
    /// The tasks for which no program can be judged, with the reason.
    pub unavailable: BTreeMap<String, String>,
    /// The tasks with weak tests.
    pub weak: Vec<WeakTask>,
}

impl Audit {
    /// The trivial programs for each function of `dataset`, in the order in which [`Audit::of`] expects their judgements.
    #[must_use]
    pub fn samples(dataset: &Dataset) -> Vec<Sample> {
        // In a file without splits, each task is in both splits.
        let mut seen = HashSet::new();
        let tasks = dataset.train.iter().chain(&dataset.eval);
        let tasks = tasks.filter(|task| seen.insert(&task.id));
        let functions = tasks.filter_map(|task| match &task.spec {
            TaskSpec::Code(code) => Some((&task.id, &code.entry_point)),
            TaskSpec::Math(_) | TaskSpec::Program(_) | TaskSpec::Lean(_) => None,
        });
        let programs = functions.flat_map(|(id, name)| {
            TrivialProgram::all().map(move |program| Sample {
                task: id.clone(),
                prompt: String::new(),
                completion: program.program(name),
                is_whole_program: true,
            })
        });
        programs.collect()
    }

    /// Judges `samples`, and calls `done` after each.
    pub async fn run(
        service: &Arc<Service>,
        dataset: &str,
        samples: &[Sample],
        done: impl Fn(),
    ) -> Audit {
        let judgements = judge_samples(service, samples, TestMode::All, done).await;
        Audit::of(dataset, &judgements)
    }

    fn of(dataset: &str, judgements: &[Judgement]) -> Audit {
        let programs: Vec<TrivialProgram> = TrivialProgram::all().collect();
        let mut audit = Audit {
            dataset: dataset.to_owned(),
            tasks: judgements.len() / programs.len(),
            unavailable: BTreeMap::new(),
            weak: Vec::new(),
        };
        for of_task in judgements.chunks_exact(programs.len()) {
            let passed: BTreeMap<TrivialProgram, u32> = programs
                .iter()
                .zip(of_task)
                .map(|(program, judgement)| (*program, judgement.passed.unwrap_or(0)))
                .collect();
            for (program, judgement) in programs.iter().zip(of_task) {
                if judgement.reward.is_none() {
                    let reason = judgement.detail["reason"].as_str().unwrap_or_default();
                    audit
                        .unavailable
                        .insert(judgement.id.to_string(), reason.to_owned());
                    break;
                }
                let all = judgement.reward == Some(1.0);
                let weak = match program {
                    TrivialProgram::Constant(_) | TrivialProgram::Raise => all,
                    // It passes more tests than the constant alone.
                    TrivialProgram::Emptied(value) => {
                        passed[program] > passed[&TrivialProgram::Constant(value)]
                    }
                    TrivialProgram::Object => passed[program] > 0,
                };
                if weak {
                    let (description, remedy) = program.description_and_remedy();
                    audit.weak.push(WeakTask {
                        task: judgement.id.to_string(),
                        program: description,
                        passed: passed[program],
                        total: judgement.total.unwrap_or(0),
                        remedy,
                    });
                }
            }
        }
        audit
    }

    /// The table for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut tasks: Vec<&str> = self.weak.iter().map(|weak| weak.task.as_str()).collect();
        tasks.dedup();
        let mut out = format!(
            "{}: {} of {} functions have weak tests\n",
            self.dataset,
            tasks.len(),
            self.tasks
        );
        for WeakTask {
            task,
            program,
            passed,
            total,
            remedy,
        } in &self.weak
        {
            out += &format!(
                "\n{task}: a program that {program} passes {passed} of {total} tests; {remedy}\n"
            );
        }
        for (task, reason) in &self.unavailable {
            out += &format!("\n{task}: no program can be judged: {reason}\n");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The judgements of a task with two tests, of which each program passes `passed(program)`.
    fn judged(task: &str, passed: impl Fn(TrivialProgram) -> u32) -> Vec<Judgement> {
        let judgement = |program| {
            let passed = passed(program);
            let reward = f64::from(u8::from(passed == 2));
            serde_json::from_value(json!({
                "id": task, "reward": reward, "verdict": if passed == 2 { "correct" } else { "incorrect" },
                "detail": {}, "passed": passed, "total": 2, "retryable": false, "key": "", "cached": false,
                "deterministic": true, "elapsed_ms": 0.0,
            }))
            .unwrap()
        };
        TrivialProgram::all().map(judgement).collect()
    }

    #[test]
    fn tests_passed_by_trivial_programs_are_reported() {
        let mut all = judged("a", |program| {
            u32::from(matches!(
                program,
                TrivialProgram::Constant("[]") | TrivialProgram::Emptied("[]")
            )) + u32::from(program == TrivialProgram::Emptied("[]"))
        });
        all.extend(judged("b", |program| {
            u32::from(program == TrivialProgram::Object)
        }));
        all.extend(judged("c", |program| {
            2 * u32::from(program == TrivialProgram::Raise)
        }));
        // A constant truth value that passes one of two tests does not count.
        all.extend(judged("d", |program| {
            u32::from(matches!(
                program,
                TrivialProgram::Constant("True" | "False")
                    | TrivialProgram::Emptied("True" | "False")
            ))
        }));
        let audit = Audit::of("own", &all);
        let weak: Vec<(&str, u32)> = audit
            .weak
            .iter()
            .map(|weak| (weak.task.as_str(), weak.passed))
            .collect();
        assert_eq!((audit.tasks, weak), (4, vec![("a", 2), ("b", 1), ("c", 2)]));
        let table = audit.table();
        assert!(table.starts_with("own: 3 of 4 functions have weak tests"));
        assert!(table.contains("empties its arguments and returns [] passes 2 of 2"));
    }
}
