//! Which task a label means. A data set of another project has one field for the truth: a bare answer, a whole task, or the id of a task of the service.
//!
//! What could be two of these is refused: a wrong guess would make every completion of the task incorrect. The Python package has the same rules (docs/clients.md).

use std::sync::Arc;

use datasets::excerpt::excerpt;
use datasets::fields::{FieldError, Fields, of_kind};
use datasets::{TaskSpec, decimal, is_worked_solution, loose_json, right_answer};
use serde_json::value::RawValue;

use crate::registry::{RegisteredTask, Registry};

/// Minimum letters of a data set's name in a task's id, if the service does not have that data set.
const MIN_DATASET_NAME: usize = 3;

/// How to write an answer that could also be something else.
const WRITE_AN_ANSWER: &str = r#"give an answer as {"kind": "math", "answer": …}"#;

/// The task that `label` means; `path` is the label's path in the body.
///
/// # Errors
/// If it means none, or may mean two.
pub(super) fn task(
    path: &str,
    label: &RawValue,
    registry: &Registry,
) -> Result<Arc<RegisteredTask>, FieldError> {
    let fault = |reason: String| (path.to_owned(), reason);
    match label.get().as_bytes() {
        [b'{', ..] => whole_task(path, label, registry),
        [b'-' | b'0'..=b'9', ..] => decimal::from_json_number(label.get())
            .map(answer)
            .map_err(|reason| fault(reason.to_owned())),
        [b'"', ..] => text(path, &of_kind::<String>(label).unwrap_or_default(), registry),
        b"null" => Err(fault(
            "it is null, and without a label no completion can be judged; give an answer, a task's id, or an object with `kind`".to_owned(),
        )),
        _ => Err(fault(
            "it means no task; give an answer as text or number, a task's id, or an object with `kind`".to_owned(),
        )),
    }
}

fn answer(answer: String) -> Arc<RegisteredTask> {
    Arc::new(RegisteredTask::inline(TaskSpec::math(answer)))
}

fn whole_task(
    path: &str,
    label: &RawValue,
    registry: &Registry,
) -> Result<Arc<RegisteredTask>, FieldError> {
    let fields = Fields::new(&format!("{path}."), label)?.without_nulls();
    if !fields.has("kind") {
        let names: Vec<&str> = fields.all().keys().map(String::as_str).collect();
        let reason = format!(
            "the object has no `kind` (its fields: {}); a whole task has a `kind`, \"math\", \"code\", \"program\" or \"lean\"",
            excerpt(&names.join(", "))
        );
        return Err((path.to_owned(), reason));
    }
    registry.inline(&format!("{path}.kind"), TaskSpec::read(fields)?)
}

fn text(path: &str, label: &str, registry: &Registry) -> Result<Arc<RegisteredTask>, FieldError> {
    let fault = |reason: String| Err((path.to_owned(), reason));
    let text = label.trim();
    if is_meant_as_object(text) {
        let text = loose_json::repaired(text.into());
        return match serde_json::from_slice::<&RawValue>(&text) {
            Ok(object) => whole_task(path, object, registry),
            Err(error) => {
                let reason = loose_json::reason(&text, &error);
                fault(format!(
                    "it looks like a JSON object, and is not ({reason})"
                ))
            }
        };
    }
    let is_long =
        |name: &str| name.chars().filter(|c| c.is_alphabetic()).count() >= MIN_DATASET_NAME;
    let name = dataset_name(text)
        .filter(|name| !is_worked_solution(text) && (registry.has_dataset(name) || is_long(name)));
    let Some(name) = name else {
        // A blank before the answer may be what is left of a command.
        return right_answer(label)
            .map(answer)
            .map_err(|error| (path.to_owned(), error.to_string()));
    };
    match (registry.has_dataset(name), is_long(name)) {
        (true, true) => registry
            .get(text)
            .ok_or_else(|| (path.to_owned(), registry.missing(text))),
        (true, false) => fault(format!(
            "the service has a data set `{name}`, but `{}` may be a quotient too; {WRITE_AN_ANSWER}",
            excerpt(text)
        )),
        (false, _) => fault(format!(
            "`{}` looks like a task's id: {}; {WRITE_AN_ANSWER}",
            excerpt(text),
            registry.missing(text)
        )),
    }
}

/// Whether a text begins as a JSON object does, and not as a set in mathematics.
fn is_meant_as_object(text: &str) -> bool {
    text.strip_prefix('{')
        .is_some_and(|rest| rest.trim_start().starts_with(['"', '\'']))
}

/// The part before the slash, if the text may be a task's id.
fn dataset_name(text: &str) -> Option<&str> {
    let (name, rest) = text.split_once('/')?;
    let is_name = name.starts_with(char::is_alphabetic)
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'));
    (is_name && rest.starts_with(|c: char| !c.is_whitespace())).then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::registry::questions;

    /// A registry with the data sets `sums` and `x`. Each has the task 2, with the answer 4.
    fn registry() -> Registry {
        let mut registry = Registry::default();
        for name in ["sums", "x"] {
            registry.add(questions(name, &[(2, "2 + 2?", "4")]));
        }
        registry
    }

    fn read(label: &Json) -> Result<Arc<RegisteredTask>, String> {
        let label = serde_json::value::to_raw_value(label).unwrap();
        task("labels[1]", &label, &registry())
            .map_err(|(field, reason)| format!("{field}: {reason}"))
    }

    /// Labels that are answers, and the answers.
    const ANSWERS: &str = r#"
"\\frac12" | \frac12
" 3/4\n" | 3/4
"a/b" | a/b
"a / b" | a / b
"speed /time" | speed /time
"{1, 2}" | {1, 2}
"[1, 2]" | [1, 2]
12 | 12
0.5 | 0.5
-3 | -3
"null" | null
"16 - 3 = 13\n\u0023### 1,300" | 1300
"speed/time is the pace #### 5" | 5
"km/h is the unit: $\\boxed{5}$." | 5
{"kind": "math", "answer": "speed/time"} | speed/time
"#;

    #[test]
    fn a_bare_label_is_an_answer() {
        for line in ANSWERS.trim().lines() {
            let (label, expected) = line.split_once(" | ").unwrap();
            let task = read(&serde_json::from_str(label).unwrap()).unwrap();
            let TaskSpec::Math(datasets::MathTask { answer }) = &task.spec else {
                panic!("{label} means {:?}", task.spec)
            };
            assert_eq!(answer, expected, "{label}");
        }
    }

    #[test]
    fn what_may_be_an_answer_or_a_tasks_id_is_refused() {
        let error = read(&json!("x/2")).unwrap_err();
        let says = "labels[1]: the service has a data set `x`, but `x/2` may be a quotient too";
        assert!(error.starts_with(says), "{error}");
    }
}
