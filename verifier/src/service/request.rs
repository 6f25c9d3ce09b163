//! Reads the body of `POST /v1/verify`, and names the item and the field of what is wrong.

use std::sync::Arc;

use datasets::name::why_no_name;
use datasets::{CodeTask, CodeTest, Compare, LeanTask, MathTask, TaskSpec, Value};
use serde_json::{Map, Value as Json};
use verifier_api::RequestLimits;

use super::{ProblemResponse, surrogates};
use crate::grade::code::Extent;
use crate::registry::{Known, Registry, nearest};

/// An item with its task.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The client's own name for it.
    pub id: String,
    /// What decides.
    pub task: Arc<Known>,
    /// The prompt as the model saw it.
    pub prompt: String,
    /// What the model answered.
    pub completion: String,
    /// How many of a code task's tests are run.
    pub extent: Extent,
}

impl Question {
    /// Whether judging it takes more than microseconds.
    pub(super) fn heavy(&self) -> bool {
        !matches!(self.task.spec, TaskSpec::Math(_))
    }
}

/// What is wrong with a field: its path, and the reason.
type Fault = (String, String);

/// The questions of a request's body.
pub(super) fn read(
    body: &[u8],
    registry: &Registry,
    limits: &RequestLimits,
) -> Result<Vec<Question>, ProblemResponse> {
    let body: Json = serde_json::from_slice(body)
        .or_else(|error| {
            surrogates::replaced(body)
                .and_then(|body| serde_json::from_slice(&body).ok())
                .ok_or(error)
        })
        .map_err(ProblemResponse::not_json)?;
    let Json::Object(mut body) = body else {
        return Err(ProblemResponse::bad(
            None,
            "items",
            "the body is not an object with `items`",
        ));
    };
    let Some(Json::Array(items)) = body.remove("items") else {
        return Err(ProblemResponse::bad(
            None,
            "items",
            "it must be there, and an array",
        ));
    };
    if let Some(key) = body.keys().next() {
        return Err(ProblemResponse::bad(None, key, "the body has only `items`"));
    }
    if items.len() > limits.items {
        let reason = format!(
            "{} items are more than the {} that one request may hold; split them",
            items.len(),
            limits.items
        );
        return Err(ProblemResponse::bad(None, "items", &reason));
    }
    items
        .into_iter()
        .enumerate()
        .map(|(index, item)| {
            question(item, registry)
                .map_err(|(field, reason)| ProblemResponse::bad(Some(index), &field, &reason))
        })
        .collect()
}

fn question(item: Json, registry: &Registry) -> Result<Question, Fault> {
    let mut fields = Fields::new("", item)?;
    let question = Question {
        id: fields.string("id")?,
        task: match fields.take("task")? {
            Json::String(name) => registry
                .get(&name)
                .ok_or_else(|| ("task".to_owned(), registry.missing(&name)))?,
            inline => Arc::new(Known::from(task(inline)?)),
        },
        prompt: fields.string("prompt")?,
        completion: fields.string("completion")?,
        extent: match fields.left.remove("all_tests") {
            None | Some(Json::Bool(false)) => Extent::UntilFailure,
            Some(Json::Bool(true)) => Extent::All,
            Some(_) => {
                return Err((
                    "all_tests".to_owned(),
                    "it must be true or false".to_owned(),
                ));
            }
        },
    };
    fields.done(&["id", "task", "prompt", "completion", "all_tests"])?;
    Ok(question)
}

fn task(inline: Json) -> Result<TaskSpec, Fault> {
    if !inline.is_object() {
        return Err((
            "task".to_owned(),
            "it must be a task's id or an object with `kind`".to_owned(),
        ));
    }
    let mut fields = Fields::new("task.", inline)?;
    let kind = fields.string("kind")?;
    match kind.as_str() {
        "math" => {
            let answer = fields.string("answer")?;
            if answer.trim().is_empty() {
                return Err(fields.fault(
                    "answer",
                    "it is empty, so that no completion could be right; give the right answer",
                ));
            }
            fields.done(&["kind", "answer"])?;
            Ok(TaskSpec::Math(MathTask { answer }))
        }
        "lean" => {
            let (header, statement) = (fields.string("header")?, fields.string("statement")?);
            fields.done(&["kind", "header", "statement"])?;
            Ok(TaskSpec::Lean(LeanTask { header, statement }))
        }
        "code" => {
            let task = code(&mut fields)?;
            fields.done(&["kind", "entry_point", "tests", "asserts"])?;
            Ok(TaskSpec::Code(task))
        }
        other => {
            let near = nearest(other, ["math", "code", "lean"].into_iter())
                .map(|near| format!(" (did you mean `{near}`?)"))
                .unwrap_or_default();
            Err((
                "task.kind".to_owned(),
                format!("`{other}` is none of `math`, `code`, `lean`{near}"),
            ))
        }
    }
}

fn code(fields: &mut Fields) -> Result<CodeTask, Fault> {
    let entry_point = fields.string("entry_point")?;
    if let Some(reason) = why_no_name(&entry_point) {
        return Err(("task.entry_point".to_owned(), reason));
    }
    let mut tests = Vec::new();
    for (index, test) in fields.list("tests")?.into_iter().enumerate() {
        let path = format!("task.tests[{index}]");
        let mut fields = Fields::new(&format!("{path}."), test)?;
        let args = fields.required_list("args")?;
        let args = args
            .iter()
            .enumerate()
            .map(|(at, arg)| value(&format!("{path}.args[{at}]"), arg))
            .collect::<Result<_, _>>()?;
        let expected = Some(value(
            &format!("{path}.expected"),
            &fields.take("expected")?,
        )?);
        fields.done(&["args", "expected"])?;
        tests.push(CodeTest { args, expected });
    }
    let mut asserts = Vec::new();
    for (index, assert) in fields.list("asserts")?.into_iter().enumerate() {
        let fault = |reason: &str| Err((format!("task.asserts[{index}]"), reason.to_owned()));
        match assert {
            Json::String(assert) if assert.trim().is_empty() => {
                return fault("it is empty, and tests nothing; leave it out");
            }
            Json::String(assert) => asserts.push(assert),
            _ => return fault("it must be a string of Python"),
        }
    }
    if tests.is_empty() && asserts.is_empty() {
        return Err((
            "task.tests".to_owned(),
            "a code task needs at least one element in `tests` or `asserts`".to_owned(),
        ));
    }
    Ok(CodeTask {
        entry_point,
        prefix: None,
        canonical: None,
        imports: Vec::new(),
        example: None,
        tests,
        asserts,
        atol: 0.0,
        compare: Compare::Equal,
    })
}

fn value(path: &str, json: &Json) -> Result<Value, Fault> {
    Value::from_json(json).map_err(|error| (path.to_owned(), error.to_string()))
}

/// The fields of an object that are not read yet, and the path that leads to it.
struct Fields {
    path: String,
    left: Map<String, Json>,
}

impl Fields {
    fn new(path: &str, json: Json) -> Result<Fields, Fault> {
        match json {
            Json::Object(left) => Ok(Fields {
                path: path.to_owned(),
                left,
            }),
            _ => {
                let place = path.trim_end_matches('.');
                Err((
                    if place.is_empty() { "(item)" } else { place }.to_owned(),
                    "it must be an object".to_owned(),
                ))
            }
        }
    }

    fn fault(&self, name: &str, reason: &str) -> Fault {
        (format!("{}{name}", self.path), reason.to_owned())
    }

    fn take(&mut self, name: &str) -> Result<Json, Fault> {
        self.left
            .remove(name)
            .ok_or_else(|| self.fault(name, "it is missing"))
    }

    fn string(&mut self, name: &str) -> Result<String, Fault> {
        match self.take(name)? {
            Json::String(text) => Ok(text),
            _ => Err(self.fault(name, "it must be a string")),
        }
    }

    fn required_list(&mut self, name: &str) -> Result<Vec<Json>, Fault> {
        match self.take(name)? {
            Json::Array(items) => Ok(items),
            _ => Err(self.fault(name, "it must be an array")),
        }
    }

    fn list(&mut self, name: &str) -> Result<Vec<Json>, Fault> {
        if self.left.contains_key(name) {
            self.required_list(name)
        } else {
            Ok(Vec::new())
        }
    }

    fn done(&self, known: &[&str]) -> Result<(), Fault> {
        let Some(name) = self.left.keys().next() else {
            return Ok(());
        };
        let near = nearest(name, known.iter().copied())
            .map(|near| format!("; did you mean `{near}`?"))
            .unwrap_or_default();
        Err(self.fault(name, &format!("there is no such field{near}")))
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const LIMITS: RequestLimits = RequestLimits {
        body_bytes: 1 << 20,
        items: 3,
        queue: 10,
    };

    fn fault(item: &Json) -> (u16, String) {
        let good = json!({"id": "a", "task": {"kind": "math", "answer": "1"}, "prompt": "", "completion": ""});
        let body = json!({ "items": [good, item] }).to_string();
        let problem = read(body.as_bytes(), &Registry::default(), &LIMITS).unwrap_err();
        let text = format!("{problem:?}");
        (problem.into_response().status().as_u16(), text)
    }

    #[test]
    fn a_bad_item_is_named_with_its_field() {
        for (item, place) in [
            (
                json!({"id": 3, "task": "x/1", "prompt": "", "completion": ""}),
                "items[1], `id`: it must be a string",
            ),
            (
                json!({"id": "", "task": "x/1", "prompt": "", "completion": ""}),
                "items[1], `task`: this server has no data set `x`",
            ),
            (
                json!({"id": "", "task": {"kind": "mth", "answer": ""}, "prompt": "", "completion": ""}),
                "did you mean `math`?",
            ),
            (
                json!({"id": "", "task": {"kind": "math"}, "prompt": "", "completion": ""}),
                "`task.answer`: it is missing",
            ),
            (
                json!({"id": "", "task": {"kind": "math", "answer": "1"}, "completion": ""}),
                "`prompt`: it is missing",
            ),
            (
                json!({"id": "", "task": {"kind": "math", "answer": "1"}, "prompt": "", "completion": "", "promt": ""}),
                "`promt`: there is no such field; did you mean `prompt`?",
            ),
            (
                json!({"id": "", "task": {"kind": "code", "entry_point": "f"}, "prompt": "", "completion": ""}),
                "`task.tests`: a code task needs",
            ),
            (
                json!({"id": "", "task": {"kind": "code", "entry_point": "f()", "asserts": ["x"]}, "prompt": "", "completion": ""}),
                "`task.entry_point`",
            ),
            (
                json!({"id": "", "task": {"kind": "code", "entry_point": "class", "asserts": ["x"]}, "prompt": "", "completion": ""}),
                "`task.entry_point`: `class` is a keyword of Python",
            ),
            (
                json!({"id": "", "task": {"kind": "math", "answer": " \n"}, "prompt": "", "completion": ""}),
                "`task.answer`: it is empty",
            ),
            (
                json!({"id": "", "task": {"kind": "code", "entry_point": "f", "asserts": ["x", ""]}, "prompt": "", "completion": ""}),
                "`task.asserts[1]`: it is empty",
            ),
            (
                json!({"id": "", "task": {"kind": "code", "entry_point": "f", "tests": [{"args": [{"$tuble": []}], "expected": 1}]}, "prompt": "", "completion": ""}),
                "`task.tests[0].args[0]`",
            ),
            (
                json!({"id": "", "task": {"kind": "code", "entry_point": "f", "tests": [{"args": []}]}, "prompt": "", "completion": ""}),
                "`task.tests[0].expected`: it is missing",
            ),
            (json!([]), "`(item)`: it must be an object"),
        ] {
            let (status, text) = fault(&item);
            assert_eq!(status, 422, "{item}");
            assert!(text.contains(place), "{place} in {text}");
        }
    }

    #[test]
    fn a_body_that_is_no_batch_is_refused() {
        for (body, status) in [
            ("", 400),
            ("{", 400),
            ("[]", 422),
            ("{}", 422),
            (r#"{"items": 1}"#, 422),
            (r#"{"items": [], "x": 1}"#, 422),
            (r#"{"items": [1, 2, 3, 4]}"#, 422),
        ] {
            let problem = read(body.as_bytes(), &Registry::default(), &LIMITS).unwrap_err();
            assert_eq!(problem.into_response().status().as_u16(), status, "{body}");
        }
        let halved = br#"{"items": [{"id": "\ud800", "task": {"kind": "math", "answer": "1"}, "prompt": "", "completion": "a\udfff"}]}"#;
        let questions = read(halved, &Registry::default(), &LIMITS).unwrap();
        assert_eq!(
            (questions[0].id.as_str(), questions[0].completion.as_str()),
            ("\u{fffd}", "a\u{fffd}")
        );
        assert_eq!(
            read(br#"{"items": []}"#, &Registry::default(), &LIMITS).unwrap(),
            []
        );
    }

    proptest! {
        #[test]
        fn no_body_makes_reading_panic(body in r#"(\{"items":\[)?(\{|\}|\[|\]|"(id|task|kind|code|tests|args|prompt|completion|\$set)"|:|,|1|null| ){0,40}"#) {
            let _ = read(body.as_bytes(), &Registry::default(), &LIMITS);
        }
    }
}
