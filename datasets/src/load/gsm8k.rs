//! Loads GSM8K: 7,473 word problems to train on, 1,319 to evaluate on.

use std::path::Path;

use super::{Folder, record};
use crate::{Dataset, DatasetError, MathTask, Task, TaskSpec};

pub(super) fn open(folder: &Folder<'_>) -> Result<Dataset, DatasetError> {
    let [train, eval] = folder.files(["train.jsonl", "eval.jsonl"])?;
    Ok(Dataset {
        name: "gsm8k".to_owned(),
        train: tasks(&train, "train")?,
        eval: tasks(&eval, "eval")?,
    })
}

/// Why the text after the last `####` is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FinalAnswerError {
    /// There is no text.
    #[error("nothing follows its last `####`, so no completion could be correct")]
    Empty,
    /// There is more than an answer.
    #[error("several lines follow its last `####`; leave only the line with the answer")]
    Lines,
}

/// The final answer of a worked solution in GSM8K's form: what follows the last `####`, without commas between thousands. `None` if the solution has no `####`.
///
/// # Errors
/// If nothing follows the `####`, or several lines.
pub fn final_answer(solution: &str) -> Result<Option<String>, FinalAnswerError> {
    let Some((_, answer)) = solution.rsplit_once("####") else {
        return Ok(None);
    };
    let answer = answer.trim();
    if answer.is_empty() {
        return Err(FinalAnswerError::Empty);
    }
    if answer.contains(['\n', '\r']) {
        return Err(FinalAnswerError::Lines);
    }
    if has_thousands(answer) {
        return Ok(Some(answer.replace(',', "")));
    }
    Ok(Some(answer.to_owned()))
}

/// Whether the text is one number with commas between thousands, such as `-1,234.5`, and not a list such as `1,2`.
fn has_thousands(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.trim_start_matches(['-', '+', '$']);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    whole.split_once(',').is_some_and(|(first, groups)| {
        first.len() <= 3
            && digits(first)
            && groups
                .split(',')
                .all(|group| group.len() == 3 && digits(group))
            && digits(fraction)
    })
}

fn tasks(path: &Path, split: &str) -> Result<Vec<Task>, DatasetError> {
    record::read(path)?
        .iter()
        .map(|record| {
            let solution = record.text("answer")?;
            let answer = final_answer(solution)
                .map_err(|error| record.error("answer", error.to_string()))?
                .ok_or_else(|| {
                    record.error(
                        "answer",
                        "the final answer is expected after `####`, which is missing",
                    )
                })?;
            Ok(Task {
                id: format!("gsm8k/{split}/{}", record.line),
                question: record.text("question")?.to_owned(),
                spec: TaskSpec::Math(MathTask { answer }),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_final_answer_is_what_follows_the_last_mark() {
        for (solution, answer) in [
            ("16 - 3 - 4 = 9\n9 * 8 = 72\n#### 72", Some("72")),
            ("#### 1\n#### -2,345,678.50 \n", Some("-2345678.50")),
            ("#### $1,200", Some("$1200")),
            ("#### 1,2", Some("1,2")),
            ("#### 1,2345", Some("1,2345")),
            ("#### (1,234)", Some("(1,234)")),
            ("72", None),
            ("1,234", None),
        ] {
            let found = final_answer(solution).unwrap();
            assert_eq!(found.as_deref(), answer, "{solution}");
        }
        for (solution, error) in [
            ("It is\n#### ", FinalAnswerError::Empty),
            ("#### 7\nDone.", FinalAnswerError::Lines),
            ("####\n7\rDone.", FinalAnswerError::Lines),
        ] {
            assert_eq!(final_answer(solution), Err(error), "{solution}");
        }
    }
}
