//! Completions of MBPP+'s tasks: a model's with EvalPlus's verdicts, or those that were written for the excerpt.

use serde_json::Value;

use crate::data::Records;

/// One completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The task's id, such as `mbppplus/2`.
    pub task: String,
    /// The text of the completion.
    pub completion: String,
    /// Whether it is correct: for a model's completion, EvalPlus's verdict.
    pub passed: bool,
}

/// Numbers of the tasks with a sample or a canonical solution that takes more than a tenth of a second of a core. They take all but a fortieth of the total time.
const HEAVY: &[u32] = &[
    61, 67, 84, 96, 123, 126, 162, 239, 247, 255, 256, 260, 267, 271, 287, 300, 301, 389, 392, 406,
    453, 462, 583, 589, 592, 603, 605, 608, 630, 739, 745, 752, 781, 797,
];

impl Sample {
    /// Whether it takes only some hundredths of a second.
    pub fn light(&self) -> bool {
        !HEAVY
            .iter()
            .any(|number| self.task == format!("mbppplus/{number}"))
    }
}

/// All completions with their verdicts.
pub fn labelled(data: &Records) -> Vec<Sample> {
    let path = data.samples();
    let text = std::fs::read_to_string(&path).unwrap();
    let sample = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        Sample {
            task: format!("mbppplus/{}", record["task_id"]),
            completion: record["completion"].as_str().unwrap().to_owned(),
            passed: record["plus_passed"].as_bool().unwrap(),
        }
    };
    text.lines().map(sample).collect()
}
