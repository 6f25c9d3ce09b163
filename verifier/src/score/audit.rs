//! Finds tasks with weak tests, which trivial programs pass. The programs are judged on each task like samples.

use std::collections::{BTreeMap, HashSet};

use datasets::python_name::method;
use datasets::{Dataset, TaskSpec};
use serde::Serialize;
use verifier_api::Judgement;

use super::Sample;

/// Constant results that weak tests may accept: those for empty arguments, and those for tests of a property.
const CONSTANTS: [&str; 9] = [
    "[]", "0", "''", "{}", "()", "set()", "None", "True", "False",
];
/// Empties the arguments that can be emptied.
const EMPTY_ARGUMENTS: &str = "for value in [*args, *kwargs.values()]:
        if isinstance(value, bytearray):
            value[:] = b''
        elif hasattr(value, 'clear'):
            value.clear()";

/// When the tests that a trivial program passes count as weak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WeakIf {
    /// It passes all of them.
    All,
    /// It passes one.
    Any,
    /// It passes more than the program before it.
    More,
}

/// A trivial program, which solves no task.
#[derive(Debug)]
struct TrivialProgram {
    /// What it does.
    does: String,
    /// How to change tests that it passes.
    remedy: &'static str,
    weak_if: WeakIf,
    /// The body of its function.
    body: String,
}

impl TrivialProgram {
    fn all() -> Vec<TrivialProgram> {
        let constants = CONSTANTS.into_iter().flat_map(|value| {
            [
                TrivialProgram {
                    does: format!("returns {value} whatever it is given"),
                    remedy: "expect more than one value",
                    weak_if: WeakIf::All,
                    body: format!("return {value}"),
                },
                TrivialProgram {
                    does: format!("empties its arguments and returns {value}"),
                    remedy: "compare with a literal or a copy, not with an argument that the program has had",
                    weak_if: WeakIf::More,
                    body: format!("{EMPTY_ARGUMENTS}\n    return {value}"),
                },
            ]
        });
        let object = TrivialProgram {
            does: "returns an object of its own, which is unequal to everything".to_owned(),
            remedy: "compare with `==`, not with `!=` alone",
            weak_if: WeakIf::Any,
            body: "class Rapid:\n        pass\n    return Rapid()".to_owned(),
        };
        let raise = TrivialProgram {
            does: "raises whatever it is given".to_owned(),
            remedy: "let no exception pass for a result",
            weak_if: WeakIf::All,
            body: "raise ValueError".to_owned(),
        };
        constants.chain([object, raise]).collect()
    }

    /// Its source, as a function or a method.
    fn source(&self, entry_point: &str) -> String {
        let body = &self.body;
        let (class, name) = match method(entry_point) {
            None => (String::new(), entry_point),
            Some((class, _, name)) => (
                format!(
                    "\nclass {class}:\n    def __init__(self, *_):\n        pass\n    {name} = staticmethod({name})\n"
                ),
                name,
            ),
        };
        format!("def {name}(*args, **kwargs):\n    {body}\n{class}")
    }
}

/// A task with weak tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WeakTask {
    /// The task's id.
    pub task: String,
    /// What the trivial program does.
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
    /// Number of audited tasks. Only functions are audited.
    pub tasks: usize,
    /// The tasks for which no program can be judged, with the reason.
    pub unavailable: BTreeMap<String, String>,
    /// The tasks with weak tests.
    pub weak: Vec<WeakTask>,
}

impl Audit {
    /// The trivial programs for each function of `dataset`, in the order in which [`Audit::of`] expects their judgements.
    pub fn samples(dataset: &Dataset) -> Vec<Sample> {
        // In a file without splits, each task is in both splits.
        let mut seen = HashSet::new();
        let tasks = dataset.train.iter().chain(&dataset.eval);
        let tasks = tasks.filter(|task| seen.insert(&task.id));
        let functions = tasks.filter_map(|task| match &task.spec {
            TaskSpec::Code(code) => Some((&task.id, &code.entry_point)),
            _ => None,
        });
        let programs = TrivialProgram::all();
        let samples = functions.flat_map(|(id, name)| {
            programs.iter().map(|program| Sample {
                task: id.clone(),
                prompt: String::new(),
                completion: program.source(name),
                is_whole_program: true,
            })
        });
        samples.collect()
    }

    /// The result, from all judgements of [`Audit::samples`].
    pub fn of(dataset: &str, judgements: &[Judgement]) -> Audit {
        let programs = TrivialProgram::all();
        let mut audit = Audit {
            dataset: dataset.to_owned(),
            tasks: judgements.len() / programs.len(),
            unavailable: BTreeMap::new(),
            weak: Vec::new(),
        };
        for of_task in judgements.chunks_exact(programs.len()) {
            let mut passed_before = 0;
            for (program, judgement) in programs.iter().zip(of_task) {
                let task = judgement.id.to_string();
                let Some(reward) = judgement.reward else {
                    let reason = judgement.detail["reason"].as_str().unwrap_or_default();
                    audit.unavailable.insert(task, reason.to_owned());
                    break;
                };
                let passed = judgement.passed.unwrap_or(0);
                let weak = match program.weak_if {
                    WeakIf::All => reward == 1.0,
                    WeakIf::Any => passed > 0,
                    WeakIf::More => passed > passed_before,
                };
                passed_before = passed;
                if weak {
                    audit.weak.push(WeakTask {
                        task,
                        program: program.does.clone(),
                        passed,
                        total: judgement.total.unwrap_or(0),
                        remedy: program.remedy,
                    });
                }
            }
        }
        audit
    }

    /// The table for people.
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

    /// The judgements of a task with two tests. `passed` has the programs that pass some, by what they do.
    fn judged(task: &str, passed: &[(&str, u32)]) -> Vec<Judgement> {
        let judgement = |program: &TrivialProgram| {
            let passed = passed
                .iter()
                .find(|(does, _)| program.does.starts_with(does));
            let passed = passed.map_or(0, |(_, passed)| *passed);
            let reward = f64::from(u8::from(passed == 2));
            serde_json::from_value(json!({
                "id": task, "reward": reward, "verdict": if passed == 2 { "correct" } else { "incorrect" },
                "detail": {}, "passed": passed, "total": 2, "retryable": false, "key": "", "cached": false,
                "deterministic": true, "elapsed_ms": 0.0,
            }))
            .unwrap()
        };
        TrivialProgram::all().iter().map(judgement).collect()
    }

    #[test]
    fn tests_passed_by_trivial_programs_are_reported() {
        let mut unavailable = judged("e", &[]);
        unavailable[0].reward = None;
        unavailable[0].detail = json!({"reason": "its canonical solution fails"});
        let emptying = |value: &str| format!("empties its arguments and returns {value}");
        let [list, truth] = ["[]", "True"].map(emptying);
        let all = [
            judged("a", &[("returns []", 1), (&list, 2)]),
            judged("b", &[("returns an object", 1)]),
            judged("c", &[("raises", 2)]),
            // A constant truth value that passes one of two tests does not count.
            judged("d", &[("returns True", 1), (&truth, 1)]),
            unavailable,
        ];
        let audit = Audit::of("own", &all.concat());
        let weak = audit.weak.iter();
        let weak: Vec<(&str, u32)> = weak.map(|weak| (weak.task.as_str(), weak.passed)).collect();
        assert_eq!((audit.tasks, weak), (5, vec![("a", 2), ("b", 1), ("c", 2)]));
        let table = audit.table();
        assert!(table.starts_with("own: 3 of 5 functions have weak tests"));
        assert!(table.ends_with("\ne: no program can be judged: its canonical solution fails\n"));
        assert!(table.contains("empties its arguments and returns [] passes 2 of 2"));
    }
}
