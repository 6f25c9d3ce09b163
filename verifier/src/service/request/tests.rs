use axum::response::IntoResponse as _;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const LIMITS: RequestLimits = RequestLimits {
    body_bytes: 1 << 20,
    items: 3,
    queue: 10,
};

/// The items of a request, all of which can be judged, or the first problem.
fn read(
    body: &[u8],
    registry: &Registry,
    limits: &RequestLimits,
) -> Result<Vec<JudgeItem>, ProblemResponse> {
    let items = super::read(body, registry, limits)?.into_iter();
    items.map(|item| item.map_err(|bad| bad.problem)).collect()
}

fn fault(item: &Json) -> (u16, String) {
    let good =
        json!({"id": "a", "task": {"kind": "math", "answer": "1"}, "prompt": "", "completion": ""});
    let body = json!({ "items": [good, item] }).to_string();
    let problem = read(body.as_bytes(), &Registry::default(), &LIMITS).unwrap_err();
    let text = format!("{problem:?}");
    (problem.into_response().status().as_u16(), text)
}

#[test]
fn of_a_worked_solution_the_answer_at_its_end_counts() {
    for (solution, answer) in [
        ("16 - 3 = 13\n#### 1,300", "1300"),
        ("We add 3+4=7, so it is $\\boxed{7}$.", "7"),
    ] {
        let task = json!({"kind": "math", "answer": solution});
        let item = parse_item(&json!({"id": "a", "task": task, "completion": ""}).to_string());
        let answer = answer.to_owned();
        assert_eq!(item.task.spec, TaskSpec::Math(MathTask { answer }));
    }
}

#[test]
fn long_text_of_the_client_is_shortened_in_its_problem() {
    let long = "long".repeat(10_000);
    for item in [
        json!({"id": long, "task": "x/1", "completion": ""}),
        json!({"id": "", "task": long, "completion": ""}),
        json!({"id": "", "task": {"kind": long}, "completion": ""}),
        json!({"id": "", "task": {"kind": "math", "answer": "1"}, "completion": "", (long.clone()): 1}),
        json!({"id": "", "task": {"kind": "code", "entry_point": format!("{long}()"), "asserts": ["x"]}, "completion": ""}),
        json!({"id": "", "task": {"kind": "code", "entry_point": "f", "asserts": ["x"], "compare": long}, "completion": ""}),
        json!({"id": "", "task": {"kind": "code", "entry_point": "f", "tests": [{"args": [{(format!("${long}")): []}], "expected": 1}]}, "completion": ""}),
    ] {
        let (status, problem) = fault(&item);
        assert!(status == 422 && problem.len() < 2_000, "{problem}");
    }
}

/// Changes to an item that can be judged, of mathematics or, with `code`, of code: a field, its value or `-` for none, and a part of the problem.
const BAD_ITEMS: &str = r#"
id = [3] | items[1], `id`: it must be a string or a number
id = null | `id`: it must be a string or a number, not null
task = "x/1" | items[1], `task`: this server has no data set `x`
task = null | an object with `kind`, not null
task.kind = "mth" | did you mean `math`?
task.answer = - | `task.answer`: it is missing
task.answer = true | `task.answer`: it must be a string or a number
task.answer = null | `task.answer`: it must be a string or a number, not null
task.answer = " \n" | `task.answer`: it is empty
task.answer = "It is\n#### " | `task.answer`: nothing follows its last `####`
task.answer = " #### 7\nDone." | `task.answer`: several lines follow its last `####`
task.answer = "3 + 4 = 7\n7" | `task.answer`: it is prose or several lines, which no completion could match; give the answer alone
task = {"kind": "program", "tests": 1} | an array, not a number
task = {"kind": "program", "tests": ["1"]} | an object, not a text
task_digest = "" | `task_digest`: it belongs to a named task
completion = - | `completion`: it is missing
completion = null | `completion`: it must be a string, not null
prompt = 1 | `prompt`: it must be a string
prompt = {} | `prompt`: it must be a string, not an object
promt = "" | `promt`: there is no such field; did you mean `prompt`?
code.asserts = - | `task.tests`: a code task needs
code.asserts = ["x", ""] | `task.asserts[1]`: it is empty
code.entry_point = "f()" | `task.entry_point`
code.entry_point = "class" | `task.entry_point`: `class` is a keyword of Python
code.tests = [{"args": [{"$tuble": []}], "expected": 1}] | `task.tests[0].args[0]`
code.tests = [{"args": []}] | `task.tests[0].expected`: it is missing
code.canonical = 1 | `task.canonical`: it must be a string
code.cannonical = "x" | `task.cannonical`: there is no such field; did you mean `canonical`?
code.prefix = ["def f(n):"] | `task.prefix`: it must be a string
code.imports = "import math" | `task.imports`: it must be an array
code.imports = ["import math", null] | `task.imports[1]`: it must be a string of Python
code.atol = -1e-6 | `task.atol`: it must be a number, 0 or more
code.atol = "0" | `task.atol`: it must be a number, 0 or more
code.compare = "sett" | `task.compare`: unknown variant `sett`, expected one of `equal`, `set`, `not-none`
code.compare = {"set": null} | `task.compare`: it must be a string
"#;

#[test]
fn a_bad_item_is_named_with_its_field() {
    for line in BAD_ITEMS.trim().lines() {
        let (change, says) = line.split_once(" | ").unwrap();
        let (path, value) = change.split_once(" = ").unwrap();
        let (part, field) = path.split_once('.').unwrap_or(("", path));
        let mut item = json!({"id": "", "task": {"kind": "math", "answer": "1"}, "completion": ""});
        if part == "code" {
            item["task"] = json!({"kind": "code", "entry_point": "f", "asserts": ["x"]});
        }
        let holder = if part.is_empty() {
            &mut item
        } else {
            &mut item["task"]
        };
        match value {
            "-" => drop(holder.as_object_mut().unwrap().remove(field)),
            value => holder[field] = serde_json::from_str(value).unwrap(),
        }
        let (status, text) = fault(&item);
        assert_eq!(status, 422, "{line}");
        assert!(text.contains(says), "{says} in {text}");
    }
    let (_, text) = fault(&json!([]));
    assert!(text.contains("`(item)`: it must be an object"), "{text}");
}

fn only(item: &Json, registry: &Registry) -> Result<JudgeItem, String> {
    let body = json!({ "items": [item] }).to_string();
    read(body.as_bytes(), registry, &LIMITS)
        .map(|mut items| items.remove(0))
        .map_err(|problem| format!("{problem:?}"))
}

#[test]
fn an_inline_code_task_may_have_every_field() {
    let with_task = |task: Json| json!({"id": "", "task": task, "prompt": "", "completion": ""});
    let whole = with_task(json!({
        "kind": "code", "entry_point": "f", "tests": [{"args": [1]}, {"args": [2], "expected": null}], "asserts": ["assert f(1)"],
        "prefix": "def f(n):\n", "canonical": "def f(n):\n    return n\n", "imports": ["import math"], "atol": 1, "compare": "not-none",
        "class_name": "Solution", "time_limit": 2.5
    }));
    let item = only(&whole, &Registry::default()).unwrap();
    assert!(item.task.inline);
    let test = |n: i64, expected| CodeTest {
        args: vec![Value::from(n)],
        expected,
    };
    assert_eq!(
        item.task.spec,
        TaskSpec::Code(CodeTask {
            entry_point: "Solution().f".to_owned(),
            prefix: Some("def f(n):\n".to_owned()),
            canonical: Some("def f(n):\n    return n\n".to_owned()),
            imports: vec!["import math".to_owned()],
            example: None,
            tests: vec![test(1, None), test(2, Some(Value::None))],
            asserts: vec!["assert f(1)".to_owned()],
            atol: 1.0,
            compare: Compare::NotNone,
            time_limit: Some(std::time::Duration::from_millis(2500)),
        })
    );
    let plain = with_task(json!({"kind": "code", "entry_point": "f", "asserts": ["assert f(1)"]}));
    let item = only(&plain, &Registry::default()).unwrap();
    let TaskSpec::Code(code) = &item.task.spec else {
        panic!("no code")
    };
    assert_eq!(
        (&code.prefix, &code.canonical, code.imports.len()),
        (&None, &None, 0)
    );
    assert_eq!((code.atol, code.compare), (0.0, Compare::Equal));
}

/// The item of a request with this one item.
fn parse_item(item: &str) -> JudgeItem {
    let body = format!(r#"{{"items": [{item}]}}"#);
    let items = read(body.as_bytes(), &Registry::default(), &LIMITS);
    items.unwrap().remove(0)
}

#[test]
fn ids_and_answers_may_be_numbers_and_stay_as_they_were_written() {
    for (number, answer) in [
        ("2", "2"),
        ("-0.50", "-0.50"),
        (
            "123456789012345678901234567890",
            "123456789012345678901234567890",
        ),
        ("1.5e3", "1500"),
    ] {
        let item = format!(
            r#"{{"id": {number}, "task": {{"kind": "math", "answer": {number}}}, "completion": ""}}"#
        );
        let item = parse_item(&item);
        assert_eq!(item.id, Id::Number(number.into()));
        let answer = answer.to_owned();
        assert_eq!(item.task.spec, TaskSpec::Math(MathTask { answer }));
    }
}

#[test]
fn optional_fields_may_be_null() {
    let short = r#"{"id": "", "task": {"kind": "math", "answer": "1"}, "completion": ""}"#;
    let empty =
        r#"{"id": "", "task": {"kind": "math", "answer": "1"}, "prompt": "", "completion": ""}"#;
    let nulls = r#"{"id": "", "task": {"kind": "math", "answer": "1"}, "prompt": null, "task_digest": null, "all_tests": null, "completion": ""}"#;
    assert_eq!(parse_item(short), parse_item(empty));
    assert_eq!(parse_item(nulls), parse_item(empty));
    let code = |rest: &str| {
        parse_item(&format!(
            r#"{{"id": "", "task": {{"kind": "code", "entry_point": "f", "asserts": ["x"]{rest}}}, "completion": ""}}"#
        ))
    };
    let nulls = r#", "tests": null, "prefix": null, "canonical": null, "imports": null, "atol": null, "compare": null, "class_name": null, "time_limit": null"#;
    assert_eq!(code(nulls), code(""));
}

#[test]
fn the_values_of_tests_are_parsed_without_loss() {
    let body = r#"{"items": [{"id": "", "prompt": "", "completion": "", "task": {"kind": "code", "entry_point": "f", "tests": [
        {"args": [{"b": 1, "a": 123456789012345678901234567890}, -9223372036854775809], "expected": {"z": [{"y": 1.0, "x": 1}]}}]}}]}"#;
    let items = read(body.as_bytes(), &Registry::default(), &LIMITS).unwrap();
    let TaskSpec::Code(code) = &items[0].task.spec else {
        panic!("no code")
    };
    let args: Vec<String> = code.tests[0].args.iter().map(Value::to_python).collect();
    assert_eq!(
        args,
        [
            "{'b': 1, 'a': 123456789012345678901234567890}",
            "-9223372036854775809"
        ]
    );
    assert_eq!(
        code.tests[0]
            .expected
            .as_ref()
            .map(Value::to_python)
            .as_deref(),
        Some("{'z': [{'y': 1.0, 'x': 1}]}")
    );
}

#[test]
fn values_that_nest_too_deeply_are_refused_with_their_field() {
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = format!(
        r#"{{"items": [{{"id": "", "prompt": "", "completion": "", "task": {{"kind": "code", "entry_point": "f", "tests": [{{"args": [{nested}], "expected": 1}}]}}}}]}}"#
    );
    let problem = read(body.as_bytes(), &Registry::default(), &LIMITS).unwrap_err();
    let text = format!("{problem:?}");
    assert!(text.contains("`task.tests[0].args[0]`"), "{text}");
}

#[test]
fn a_task_with_another_digest_than_the_clients_is_refused() {
    let spec = TaskSpec::Math(MathTask {
        answer: "2".to_owned(),
    });
    let digest = spec.digest().to_string();
    let mut registry = Registry::default();
    registry.add(datasets::Dataset {
        name: "sums".to_owned(),
        train: vec![datasets::Task {
            id: "sums/1".to_owned(),
            question: "1 + 1?".to_owned(),
            spec,
        }],
        eval: Vec::new(),
    });
    let item = |digest: &str| json!({"id": "", "task": "sums/1", "task_digest": digest, "prompt": "", "completion": ""});
    assert!(only(&item(&digest), &registry).is_ok());
    for other in ["", "0", &digest[1..], &"0".repeat(64)] {
        let error = only(&item(other), &registry).unwrap_err();
        assert!(
            error.contains("`task_digest`: the server's task `sums/1` differs from the client's"),
            "{error}"
        );
    }
}

#[test]
fn a_body_that_is_not_a_batch_is_refused() {
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
    assert_eq!(
        read(br#"{"items": []}"#, &Registry::default(), &LIMITS).unwrap(),
        []
    );
}

proptest! {
    #[test]
    fn no_body_makes_parsing_panic(body in r#"(\{"items":\[)?(\{|\}|\[|\]|"(id|task|kind|code|tests|args|prompt|completion|\$set)"|:|,|1|null| ){0,40}"#) {
        let _ = read(body.as_bytes(), &Registry::default(), &LIMITS);
    }
}
