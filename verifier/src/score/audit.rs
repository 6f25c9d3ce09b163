//! Which tasks have weak tests: those that programs pass which solve nothing. The programs are tried on each task, as samples are judged.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use datasets::{Dataset, TaskSpec};
use serde::Serialize;
use verifier_api::Judgement;

use super::{Sample, judge_samples};
use crate::grade::code::TestMode;
use crate::service::Service;

/// Results that are no more than a guess: what an empty argument leads to, and what tests of a property expect.
const CONSTANTS: [&str; 9] = [
    "[]", "0", "''", "{}", "()", "set()", "None", "True", "False",
];
/// Empties the arguments that can be emptied.
const EMPTY: &str = "
def _rapid_empty(values):
    for value in values:
        if isinstance(value, bytearray):
            value[:] = b''
        elif hasattr(value, 'clear'):
            value.clear()
";

/// A program that solves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trick {
    /// Returns the same value whatever it is called with.
    Constant(&'static str),
    /// The same, and empties its arguments before.
    Emptied(&'static str),
    /// Returns an object of a class of its own.
    Object,
    /// Raises.
    Raise,
}

impl Trick {
    fn all() -> impl Iterator<Item = Trick> {
        let constants = CONSTANTS
            .into_iter()
            .flat_map(|value| [Trick::Constant(value), Trick::Emptied(value)]);
        constants.chain([Trick::Object, Trick::Raise])
    }

    fn program(self, name: &str) -> String {
        let head = format!("def {name}(*args, **kwargs):\n");
        match self {
            Trick::Constant(value) => format!("{head}    return {value}\n"),
            Trick::Emptied(value) => {
                format!(
                    "{EMPTY}\n{head}    _rapid_empty([*args, *kwargs.values()])\n    return {value}\n"
                )
            }
            Trick::Object => format!("class _Rapid:\n    pass\n\n{head}    return _Rapid()\n"),
            Trick::Raise => format!("{head}    raise ValueError\n"),
        }
    }

    /// What the program does, and what of the tests lets it pass.
    fn why(self) -> (String, &'static str) {
        match self {
            Trick::Constant(value) => (
                format!("returns {value} whatever it is given"),
                "expect more than one value",
            ),
            Trick::Emptied(value) => (
                format!("empties its arguments and returns {value}"),
                "compare with a literal or a copy, not with an argument that the program has had",
            ),
            Trick::Object => (
                "returns an object of its own, which is unequal to everything".to_owned(),
                "compare with `==`, not with `!=` alone",
            ),
            Trick::Raise => (
                "raises whatever it is given".to_owned(),
                "let no exception pass for a result",
            ),
        }
    }
}

/// A task with weak tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Weak {
    /// Its id.
    pub task: String,
    /// What the program does that passes.
    pub program: String,
    /// Tests that it passes.
    pub passed: u32,
    /// Tests in all.
    pub total: u32,
    /// What to do about them.
    pub remedy: &'static str,
}

/// What the programs found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// The data set.
    pub dataset: String,
    /// Tasks that were tried: functions.
    pub tasks: usize,
    /// Those of them that no program can be judged on, and why.
    pub unavailable: BTreeMap<String, String>,
    /// Those with weak tests.
    pub weak: Vec<Weak>,
}

impl Audit {
    /// The programs for each function of `dataset`, in the order in which [`Audit::of`] takes their judgements.
    #[must_use]
    pub fn samples(dataset: &Dataset) -> Vec<Sample> {
        // A file without splits has each task in both.
        let mut seen = HashSet::new();
        let tasks = dataset.train.iter().chain(&dataset.eval);
        let tasks = tasks.filter(|task| seen.insert(&task.id));
        let functions = tasks.filter_map(|task| match &task.spec {
            TaskSpec::Code(code) => Some((&task.id, &code.entry_point)),
            TaskSpec::Math(_) | TaskSpec::Lean(_) => None,
        });
        let programs = functions.flat_map(|(id, name)| {
            Trick::all().map(move |trick| Sample {
                task: id.clone(),
                prompt: String::new(),
                completion: trick.program(name),
                whole: true,
            })
        });
        programs.collect()
    }

    /// Judges `samples`; `done` is called after each.
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
        let tricks: Vec<Trick> = Trick::all().collect();
        let mut audit = Audit {
            dataset: dataset.to_owned(),
            tasks: judgements.len() / tricks.len(),
            unavailable: BTreeMap::new(),
            weak: Vec::new(),
        };
        for judged in judgements.chunks_exact(tricks.len()) {
            let passed: BTreeMap<Trick, u32> = tricks
                .iter()
                .zip(judged)
                .map(|(trick, judgement)| (*trick, judgement.passed.unwrap_or(0)))
                .collect();
            for (trick, judgement) in tricks.iter().zip(judged) {
                if judgement.reward.is_none() {
                    let reason = judgement.detail["reason"].as_str().unwrap_or_default();
                    audit
                        .unavailable
                        .insert(judgement.id.clone(), reason.to_owned());
                    break;
                }
                let all = judgement.reward == Some(1.0);
                let weak = match trick {
                    Trick::Constant(_) | Trick::Raise => all,
                    // More than by the value alone.
                    Trick::Emptied(value) => passed[trick] > passed[&Trick::Constant(value)],
                    Trick::Object => passed[trick] > 0,
                };
                if weak {
                    let (program, remedy) = trick.why();
                    audit.weak.push(Weak {
                        task: judgement.id.clone(),
                        program,
                        passed: passed[trick],
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
        for Weak {
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

    /// The judgements of a task of two tests, of which each program passes as many as `passed` says.
    fn judged(task: &str, passed: impl Fn(Trick) -> u32) -> Vec<Judgement> {
        let judgement = |trick| {
            let passed = passed(trick);
            let reward = f64::from(u8::from(passed == 2));
            serde_json::from_value(json!({
                "id": task, "reward": reward, "verdict": if passed == 2 { "correct" } else { "incorrect" },
                "detail": {}, "passed": passed, "total": 2, "retryable": false, "key": "", "cached": false,
                "deterministic": true, "elapsed_ms": 0.0,
            }))
            .unwrap()
        };
        Trick::all().map(judgement).collect()
    }

    #[test]
    fn what_passes_by_a_trick_alone_is_weak() {
        let mut all = judged("a", |trick| {
            u32::from(matches!(
                trick,
                Trick::Constant("[]") | Trick::Emptied("[]")
            )) + u32::from(trick == Trick::Emptied("[]"))
        });
        all.extend(judged("b", |trick| u32::from(trick == Trick::Object)));
        all.extend(judged("c", |trick| 2 * u32::from(trick == Trick::Raise)));
        // One of two truths is none.
        all.extend(judged("d", |trick| {
            u32::from(matches!(
                trick,
                Trick::Constant("True" | "False") | Trick::Emptied("True" | "False")
            ))
        }));
        let audit = Audit::of("own", &all);
        let found: Vec<(&str, u32)> = audit
            .weak
            .iter()
            .map(|weak| (weak.task.as_str(), weak.passed))
            .collect();
        assert_eq!(
            (audit.tasks, found),
            (4, vec![("a", 2), ("b", 1), ("c", 2)])
        );
        let table = audit.table();
        assert!(table.starts_with("own: 3 of 4 functions have weak tests"));
        assert!(table.contains("empties its arguments and returns [] passes 2 of 2"));
    }
}
