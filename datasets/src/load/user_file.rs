//! Loads users' files: JSON Lines, one object per line. The records of the starter sets have the same form.
//!
//! | field | kind | meaning |
//! | --- | --- | --- |
//! | `question`, `prompt` or `problem` | all | the problem's text; a theorem may lack it |
//! | `answer` | math | the right answer, text or a number; of a worked solution, what follows the last `####`, or the only box at its end |
//! | `entry_point` | code | the function to write, or `Solution().method` |
//! | `class_name` | code, optional | the class of which the entry point is a method |
//! | `time_limit` | code and program, optional | seconds that a program may take natively |
//! | `tests` | program | `[{"stdin": …, "stdout": …}, …]`, texts |
//! | `tests` | code | `[{"args": […], "expected": …}, …]`, values as in [`Value`]'s JSON form; `expected` may be missing if there is a `canonical` |
//! | `asserts` | code | Python statements that must run without an exception, or definitions of tests: `unittest` classes, `test_…` functions, `check(candidate)` |
//! | `canonical`, `imports`, `example`, `atol`, `compare` | code, optional | a right program; import lines of the tests; the assertion shown in the prompt; absolute tolerance; `equal`, `set` or `not-none` |
//! | `prefix` | code, optional | code that the completion continues |
//! | `statement` | lean | the theorem, up to and including `:= by` |
//! | `header` | lean, optional | imports and options before it |
//! | `id` | optional | unique in the file; without it, the line's number |
//! | `split` | optional | `train` or `eval`; `test`, `validation` and `dev` are `eval` |
//!
//! Records in HumanEval's and HumanEval+'s own form are accepted unchanged (`humaneval.rs`).
//!
//! A record with a `statement` is a theorem, otherwise a record with an `entry_point` is a function, otherwise one with an `answer` is a
//! question, otherwise one with `tests` is a program. Other fields are ignored, unless their name is almost one of these and the record lacks that field. If no record of a file
//! has a `split`, each is both for training and for evaluation. Otherwise a record without it is for training.

use std::collections::HashMap;
use std::path::Path;

use super::humaneval;
use super::record::{self, Record};
use crate::did_you_mean::nearest;
use crate::python_name;
use crate::{
    CodeTask, CodeTest, Compare, Dataset, DatasetError, LeanTask, MathTask, ProgramTask,
    ProgramTest, Split, Task, TaskSpec, Value, right_answer,
};

const FIELDS: [&str; 20] = [
    "question",
    "prompt",
    "problem",
    "answer",
    "entry_point",
    "class_name",
    "tests",
    "asserts",
    "canonical",
    "prefix",
    "imports",
    "example",
    "atol",
    "compare",
    "time_limit",
    "statement",
    "header",
    "id",
    "split",
    "proof",
];

pub(super) fn open(path: &Path) -> Result<Dataset, DatasetError> {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let end = file.to_ascii_lowercase().rfind(".jsonl");
    let name = &file[..end.unwrap_or(file.len())];
    from_records(name.to_owned(), &record::read(path)?)
}

pub(super) fn from_records(name: String, records: &[Record]) -> Result<Dataset, DatasetError> {
    let has_splits = records.iter().any(|record| record.has("split"));
    let mut dataset = Dataset {
        name,
        train: Vec::new(),
        eval: Vec::new(),
    };
    let mut lines: HashMap<String, usize> = HashMap::new();
    for record in records {
        let task = task(&dataset.name, record)?;
        if let Some(first) = lines.insert(task.id.clone(), record.line) {
            return Err(record.error(
                "id",
                format!("the id is also that of line {first}; ids are unique in a file"),
            ));
        }
        match split(record)? {
            _ if !has_splits => {
                dataset.train.push(task.clone());
                dataset.eval.push(task);
            }
            Split::Train => dataset.train.push(task),
            Split::Eval => dataset.eval.push(task),
        }
    }
    Ok(dataset)
}

fn split(record: &Record) -> Result<Split, DatasetError> {
    match record.optional_text("split")? {
        None | Some("train") => Ok(Split::Train),
        Some("eval" | "test" | "validation" | "valid" | "val" | "dev") => Ok(Split::Eval),
        Some(other) => Err(record.error(
            "split",
            format!("`train`, `eval`, `test`, `validation` or `dev` is expected, not `{other}`"),
        )),
    }
}

fn task(dataset: &str, record: &Record) -> Result<Task, DatasetError> {
    if humaneval::is_record(record) {
        return humaneval::task(dataset, record);
    }
    refuse_misspelt(record)?;
    let id = match record.get("id") {
        None => record.line.to_string(),
        Some(Value::Str(id)) => id.clone(),
        Some(Value::Int(n)) => n.to_string(),
        Some(other) => {
            return Err(record.error(
                "id",
                format!(
                    "a string or a whole number is expected, not {}",
                    record::kind(other)
                ),
            ));
        }
    };
    let spec = if record.has("statement") {
        TaskSpec::Lean(lean(record)?)
    } else if record.has("entry_point") {
        TaskSpec::Code(code(record)?)
    } else if record.has("answer") {
        TaskSpec::Math(MathTask {
            answer: answer(record)?,
        })
    } else if record.has("tests") {
        TaskSpec::Program(program(record)?)
    } else {
        return Err(record.error(
            None,
            format!(
                "the record has neither `answer` (math) nor `entry_point` (a function) nor `tests` (a program) nor `statement` (Lean); it has {}",
                record.listed()
            ),
        ));
    };
    let mut question = None;
    for field in ["question", "prompt", "problem"] {
        if question.is_none() {
            question = record.optional_text(field)?;
        }
    }
    let question = match (question, &spec) {
        (Some(question), _) if !question.trim().is_empty() => question,
        (_, TaskSpec::Lean(_)) => "",
        (Some(_), _) => return Err(record.error("question", "the text is empty")),
        (None, _) => {
            return Err(record.error(
                "question",
                format!(
                    "the field is missing (`prompt` and `problem` work too); the record has {}",
                    record.listed()
                ),
            ));
        }
    };
    Ok(Task {
        id: format!("{dataset}/{id}"),
        question: question.to_owned(),
        spec,
    })
}

/// Refuses a field whose name is almost that of a known field that the record lacks: such a typo would change the record's meaning.
fn refuse_misspelt(record: &Record) -> Result<(), DatasetError> {
    for name in record.field_names() {
        if FIELDS.contains(&name) {
            continue;
        }
        let absent = FIELDS.iter().copied().filter(|field| !record.has(field));
        if let Some(meant) = nearest(name, absent) {
            return Err(record.error(
                None,
                format!("the field `{name}` is not known; did you mean `{meant}`?"),
            ));
        }
    }
    Ok(())
}

fn answer(record: &Record) -> Result<String, DatasetError> {
    match record.require("answer")? {
        Value::Str(text) => {
            right_answer(text).map_err(|error| record.error("answer", error.to_string()))
        }
        number @ Value::Int(_) => Ok(number.to_python()),
        Value::Float(number) if number.is_finite() => Ok(decimal(*number)),
        other => Err(record.error(
            "answer",
            format!("text or a number is expected, not {}", record::kind(other)),
        )),
    }
}

/// The number without an exponent, because the parser of mathematical answers reads `e` as Euler's number.
fn decimal(number: f64) -> String {
    let text = Value::Float(number).to_python();
    if text.contains('e') {
        return number.to_string();
    }
    text
}

fn lean(record: &Record) -> Result<LeanTask, DatasetError> {
    let statement = record.text("statement")?.trim_end();
    if !statement.ends_with(":= by") {
        return Err(record.error(
            "statement",
            "the statement is expected to end in `:= by`, after which the proof follows",
        ));
    }
    Ok(LeanTask {
        header: record
            .optional_text("header")?
            .unwrap_or("")
            .trim_end()
            .to_owned(),
        statement: statement.to_owned(),
    })
}

fn code(record: &Record) -> Result<CodeTask, DatasetError> {
    let canonical = record.optional_text("canonical")?.map(str::to_owned);
    let prefix = record.optional_text("prefix")?.map(str::to_owned);
    // The question of LeetCode's tasks shows the class.
    let questions = ["question", "prompt", "problem"].map(|field| record.optional_text(field));
    let mut questions = questions.into_iter().flatten().flatten();
    let leetcode = questions.find(|text| text.contains("class Solution"));
    let sources = [canonical.as_deref(), prefix.as_deref(), leetcode];
    let class_name = record.optional_text("class_name")?;
    let entry_point = python_name::entry_point(record.text("entry_point")?, class_name, &sources)
        .map_err(|reason| record.error("entry_point", reason))?;
    let tests = record
        .list("tests")?
        .iter()
        .enumerate()
        .map(|(i, item)| {
            test(item, canonical.is_some())
                .map_err(|reason| record.error("tests", format!("test {}: {reason}", i + 1)))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let asserts = record.texts("asserts")?;
    if let Some(blank) = asserts.iter().position(|text| text.trim().is_empty()) {
        let reason = format!("text {} is empty, so it tests nothing", blank + 1);
        return Err(record.error("asserts", reason));
    }
    if tests.is_empty() && asserts.is_empty() {
        return Err(record.error(
            "tests",
            "the task has no tests: give `tests` or `asserts`, and at least one of them",
        ));
    }
    let atol = record.optional_number("atol")?.unwrap_or(0.0);
    if !(atol.is_finite() && atol >= 0.0) {
        let reason = format!("a tolerance of 0 or more is expected, not {atol}");
        return Err(record.error("atol", reason));
    }
    let compare = match record.optional_text("compare")? {
        None | Some("equal") => Compare::Equal,
        Some("set") => Compare::Set,
        Some("not-none") => Compare::NotNone,
        Some(other) => {
            let reason = format!("`equal`, `set` or `not-none` is expected, not `{other}`");
            return Err(record.error("compare", reason));
        }
    };
    Ok(CodeTask {
        entry_point,
        prefix,
        canonical,
        imports: record.texts("imports")?,
        example: record.optional_text("example")?.map(str::to_owned),
        tests,
        asserts,
        atol,
        compare,
        time_limit: record.time_limit()?,
    })
}

fn program(record: &Record) -> Result<ProgramTask, DatasetError> {
    let tests = record
        .list("tests")?
        .iter()
        .enumerate()
        .map(|(i, item)| {
            program_test(item)
                .map_err(|reason| record.error("tests", format!("test {}: {reason}", i + 1)))
        })
        .collect::<Result<Vec<_>, _>>()?;
    if tests.is_empty() {
        return Err(record.error("tests", "the task has no tests; give at least one"));
    }
    Ok(ProgramTask {
        tests,
        time_limit: record.time_limit()?,
    })
}

fn program_test(item: &Value) -> Result<ProgramTest, String> {
    const FORM: &str = "a test of a program is {\"stdin\": …, \"stdout\": …}, both text; the record of a function has an `entry_point`";
    let Value::Dict(entries) = item else {
        return Err(format!("{FORM}; this one is {}", record::kind(item)));
    };
    let (mut stdin, mut stdout) = (None, None);
    for entry in entries {
        match entry {
            (Value::Str(key), Value::Str(text)) if key == "stdin" => stdin = Some(text.clone()),
            (Value::Str(key), Value::Str(text)) if key == "stdout" => stdout = Some(text.clone()),
            (Value::Str(key), _) => return Err(format!("`{key}` does not fit: {FORM}")),
            _ => {}
        }
    }
    match (stdin, stdout) {
        (Some(stdin), Some(stdout)) => Ok(ProgramTest { stdin, stdout }),
        (None, _) => Err(format!("`stdin` is missing: {FORM}")),
        (_, None) => Err(format!("`stdout` is missing: {FORM}")),
    }
}

fn test(item: &Value, has_canonical: bool) -> Result<CodeTest, String> {
    let Value::Dict(entries) = item else {
        return Err(format!(
            "{{\"args\": […], \"expected\": …}} is expected, not {}",
            record::kind(item)
        ));
    };
    let (mut args, mut expected) = (None, None);
    for (key, value) in entries {
        let value = || value.clone().untag().map_err(|e| e.to_string());
        match key {
            Value::Str(key) if key == "args" => args = Some(value()?),
            Value::Str(key) if key == "expected" => expected = Some(value()?),
            Value::Str(key) => {
                let hint = crate::did_you_mean::hint(nearest(key, ["args", "expected"]));
                return Err(format!(
                    "the field `{key}` is not known{hint}; a test has `args` and `expected`"
                ));
            }
            _ => {}
        }
    }
    let args = match args {
        Some(Value::List(args)) => args,
        Some(_) => return Err("`args` is not an array".to_owned()),
        None => return Err("`args` is missing".to_owned()),
    };
    if expected.is_none() && !has_canonical {
        return Err(
            "`expected` is missing, and there is no `canonical` program to compute it".to_owned(),
        );
    }
    Ok(CodeTest { args, expected })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn load(text: &str) -> Result<Dataset, String> {
        record::parse("mine.jsonl", text)
            .and_then(|records| from_records("mine".to_owned(), &records))
            .map_err(|e| e.to_string())
    }

    fn ids(tasks: &[Task]) -> Vec<&str> {
        tasks.iter().map(|task| task.id.as_str()).collect()
    }

    #[test]
    fn a_file_is_read_alike_however_saved_and_splits_have_other_names() {
        let folder = tempfile::tempdir().unwrap();
        let splits = ["train", "eval", "test", "validation", "dev"];
        let line =
            |split: &&str| format!(r#"{{"question":"a\ud83d","answer":"1","split":"{split}"}}"#);
        let plain = splits.iter().map(line).collect::<Vec<_>>().join("\r\n");
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(plain.as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        let marked = format!("\u{feff}{plain}").into_bytes();
        for (name, bytes) in [
            ("mine.jsonl", plain.into_bytes()),
            ("mine.JSONL", marked),
            ("mine.jsonl.gz", packed.clone()),
            ("mine.jsonl", packed),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let dataset = crate::open(path.to_str().unwrap(), None).unwrap();
            assert_eq!(ids(&dataset.train), ["mine/1"], "{name}");
            assert_eq!(ids(&dataset.eval), ["mine/2", "mine/3", "mine/4", "mine/5"]);
            assert_eq!(dataset.train[0].question, "a\u{fffd}", "{name}");
        }
    }

    #[test]
    fn the_fields_decide_the_kind_of_a_record() {
        let dataset = load(concat!(
            r#"{"prompt":"1+1?","answer":2,"split":"train","source":"me"}"#,
            "\n",
            r#"{"id":"f","question":"q","entry_point":"f","tests":[{"args":[{"$tuple":[1]}],"expected":{"$set":[]}}],"atol":1,"compare":"set","split":"eval"}"#,
            "\n",
            r#"{"id":7,"statement":"theorem t : True := by\n","header":"import Std\n","split":"eval"}"#,
            "\n",
            r#"{"id":"p","question":"q","tests":[{"stdin":"1\n","stdout":"2"}],"time_limit":2.5}"#,
        ))
        .unwrap();
        assert_eq!(ids(&dataset.train), ["mine/1", "mine/p"]);
        assert_eq!(
            dataset.train[1].spec,
            TaskSpec::Program(ProgramTask {
                tests: vec![ProgramTest {
                    stdin: "1\n".to_owned(),
                    stdout: "2".to_owned()
                }],
                time_limit: Some(Duration::from_millis(2500)),
            })
        );
        assert_eq!(ids(&dataset.eval), ["mine/f", "mine/7"]);
        assert_eq!(dataset.train[0].question, "1+1?");
        assert_eq!(
            dataset.train[0].spec,
            TaskSpec::Math(MathTask {
                answer: "2".to_owned()
            })
        );
        let TaskSpec::Code(code) = &dataset.eval[0].spec else {
            panic!()
        };
        assert_eq!(code.tests[0].args, [Value::Tuple(vec![Value::from(1)])]);
        assert_eq!(code.tests[0].expected, Some(Value::Set(vec![])));
        assert_eq!((code.atol, code.compare), (1.0, Compare::Set));
        assert_eq!(
            dataset.eval[1].spec,
            TaskSpec::Lean(LeanTask {
                header: "import Std".to_owned(),
                statement: "theorem t : True := by".to_owned()
            })
        );
    }

    #[test]
    fn an_answer_that_is_a_number_is_written_without_an_exponent() {
        for (number, written) in [
            ("2", "2"),
            ("0.50", "0.5"),
            ("2.0", "2.0"),
            ("1e-7", "0.0000001"),
            ("-2.5E20", "-250000000000000000000"),
            (
                "123456789012345678901234567890",
                "123456789012345678901234567890",
            ),
        ] {
            let dataset = load(&format!(r#"{{"question":"q","answer":{number}}}"#)).unwrap();
            let TaskSpec::Math(math) = &dataset.train[0].spec else {
                panic!("{number}")
            };
            assert_eq!(math.answer, written);
        }
        assert!(load(r#"{"question":"q","answer":1e999}"#).is_err());
    }

    #[test]
    fn of_a_worked_solution_the_answer_at_its_end_counts() {
        for (text, answer) in [
            (r"16 - 3 - 4 = 9\n9 * 200 = 1,800\n#### 1,800", "1800"),
            (r"We add 3+4=7, so it is $\\boxed{7}$.", "7"),
        ] {
            let dataset = load(&format!(r#"{{"question":"q","answer":"{text}"}}"#)).unwrap();
            let TaskSpec::Math(math) = &dataset.train[0].spec else {
                panic!()
            };
            assert_eq!(math.answer, answer);
        }
    }

    #[test]
    fn integers_of_any_size_stay_exact() {
        let dataset = load(
            r#"{"question":"q","entry_point":"f","tests":[{"args":[],"expected":123456789012345678901234567890}]}"#,
        )
        .unwrap();
        let TaskSpec::Code(code) = &dataset.train[0].spec else {
            panic!()
        };
        let expected = code.tests[0].expected.as_ref().unwrap();
        assert_eq!(expected.to_python(), "123456789012345678901234567890");
    }

    #[test]
    fn records_of_a_file_without_splits_are_for_training_and_evaluation() {
        let undivided =
            load("{\"question\":\"a\",\"answer\":\"1\"}\n{\"question\":\"b\",\"answer\":\"2\"}")
                .unwrap();
        assert_eq!(ids(&undivided.train), ids(&undivided.eval));
        let divided =
            load("{\"question\":\"a\",\"answer\":\"1\"}\n{\"question\":\"b\",\"answer\":\"2\",\"split\":\"eval\"}").unwrap();
        assert_eq!(
            (ids(&divided.train), ids(&divided.eval)),
            (vec!["mine/1"], vec!["mine/2"])
        );
    }

    #[test]
    fn a_wrong_record_is_refused_with_file_line_field_and_remedy() {
        let cases = [
            (
                r#"{"question":"a","anwser":"1"}"#,
                "mine.jsonl, line 1: the field `anwser` is not known; did you mean `answer`?",
            ),
            (
                r#"{"question":"a","answer":""}"#,
                "mine.jsonl, line 1, field `answer`: it is empty",
            ),
            (
                r#"{"question":"a","answer":"\frac{1}{2}"}"#,
                "mine.jsonl, line 1, field `answer`: it has the control character U+000C",
            ),
            (
                r#"{"question":"a","answer":"It is\n#### "}"#,
                "mine.jsonl, line 1, field `answer`: nothing follows its last `####`",
            ),
            (
                r#"{"question":"a","answer":"9 - 2 = 7\n#### 7\nDone."}"#,
                "mine.jsonl, line 1, field `answer`: several lines follow its last `####`",
            ),
            (
                r#"{"question":"a","answer":[1]}"#,
                "mine.jsonl, line 1, field `answer`: text or a number is expected, not an array",
            ),
            (
                r#"{"answer":"1"}"#,
                "mine.jsonl, line 1, field `question`: the field is missing (`prompt` and `problem` work too)",
            ),
            (
                r#"{"question":"a"}"#,
                "mine.jsonl, line 1: the record has neither `answer` (math) nor `entry_point` (a function) nor `tests` (a program) nor `statement` (Lean); it has question",
            ),
            (
                r#"{"question":"a","answer":"1","split":"tests"}"#,
                "mine.jsonl, line 1, field `split`: `train`, `eval`, `test`, `validation` or `dev` is expected, not `tests`",
            ),
            (
                r#"{"statement":"theorem t : True"}"#,
                "mine.jsonl, line 1, field `statement`: the statement is expected to end in `:= by`, after which the proof follows",
            ),
            (
                r#"{"question":"q","entry_point":"f(x)","asserts":["assert f"]}"#,
                "mine.jsonl, line 1, field `entry_point`: `f(x)` is not the name of a Python function",
            ),
            (
                r#"{"question":"q","entry_point":"Solution.f","asserts":["assert f"]}"#,
                "mine.jsonl, line 1, field `entry_point`: `Solution.f` is not the name of a Python function; write a method as `Solution().f`",
            ),
            (
                r#"{"question":"q","entry_point":"f","canonical":"class Solution:\n    def f(self):\n        return 1\n","tests":[{"args":[]}]}"#,
                "mine.jsonl, line 1, field `entry_point`: `f` is a method of `Solution`; write `Solution().f`, or add `class_name`",
            ),
            (
                r#"{"question":"Complete it:\n```python\nclass Solution:\n    def f(self, n: int) -> int:\n```","entry_point":"f","tests":[{"args":[1],"expected":1}]}"#,
                "mine.jsonl, line 1, field `entry_point`: `f` is a method of `Solution`; write `Solution().f`",
            ),
            (
                r#"{"question":"q","entry_point":"f","asserts":["assert f"],"time_limit":"2"}"#,
                "mine.jsonl, line 1, field `time_limit`: a number of seconds is expected, above 0 and at most 60",
            ),
            (
                r#"{"question":"q","entry_point":"class","asserts":["assert f"]}"#,
                "mine.jsonl, line 1, field `entry_point`: `class` is a keyword of Python, so it cannot be the name of a function; give the name that the completion must define",
            ),
            (
                r#"{"question":"q","entry_point":"f","asserts":["assert f", " "]}"#,
                "mine.jsonl, line 1, field `asserts`: text 2 is empty, so it tests nothing",
            ),
            (
                r#"{"question":"q","entry_point":"f"}"#,
                "mine.jsonl, line 1, field `tests`: the task has no tests: give `tests` or `asserts`, and at least one of them",
            ),
            (
                r#"{"question":"q","tests":[]}"#,
                "mine.jsonl, line 1, field `tests`: the task has no tests; give at least one",
            ),
            (
                r#"{"question":"q","tests":[{"stdin":"1"}]}"#,
                "mine.jsonl, line 1, field `tests`: test 1: `stdout` is missing: a test of a program is",
            ),
            (
                r#"{"question":"q","tests":[{"args":[1],"expected":2}]}"#,
                "mine.jsonl, line 1, field `tests`: test 1: `args` does not fit: a test of a program is",
            ),
            (
                r#"{"question":"q","tests":[{"stdin":1,"stdout":"2"}]}"#,
                "mine.jsonl, line 1, field `tests`: test 1: `stdin` does not fit: a test of a program is",
            ),
            (
                r#"{"question":"q","entry_point":"f","tests":[{"args":[]}]}"#,
                "mine.jsonl, line 1, field `tests`: test 1: `expected` is missing, and there is no `canonical` program to compute it",
            ),
            (
                r#"{"question":"q","entry_point":"f","tests":[{"args":[],"expect":1}]}"#,
                "mine.jsonl, line 1, field `tests`: test 1: the field `expect` is not known (did you mean `expected`?); a test has `args` and `expected`",
            ),
            (
                r#"{"question":"q","entry_point":"f","tests":[{"args":[{"$tupel":[]}],"expected":1}]}"#,
                "mine.jsonl, line 1, field `tests`: test 1: `$tupel` is not a tag",
            ),
            (
                "{\"id\":\"x\",\"question\":\"a\",\"answer\":\"1\"}\n{\"id\":\"x\",\"question\":\"b\",\"answer\":\"2\"}",
                "mine.jsonl, line 2, field `id`: the id is also that of line 1; ids are unique in a file",
            ),
        ];
        for (text, message) in cases {
            let error = load(text).expect_err(text);
            assert!(error.starts_with(message), "{text}\n{error}");
        }
    }

    #[test]
    fn a_field_that_is_null_or_no_number_is_named_as_such() {
        for case in [
            r#""question":null,"answer":"1" => the record has question (null), answer"#,
            r#""question":"a","answer":null => it has question, answer (null)"#,
            r#""question":"a","answer":NaN => `answer`: text or a number is expected, not NaN"#,
            r#""question":"a","answer":-Infinity => is expected, not Infinity"#,
            r#""question":NaN,"answer":"1" => `question`: a string is expected, not NaN"#,
            r#""id":NaN,"question":"a","answer":"1" => whole number is expected, not NaN"#,
            r#""question":"q","entry_point":null,"asserts":["f"] => entry_point (null)"#,
            r#""question":"q","entry_point":"f","asserts":["f"],"atol":NaN => expected, not NaN"#,
        ] {
            let (fields, says) = case.split_once(" => ").unwrap();
            let error = load(&format!("{{{fields}}}")).expect_err(fields);
            assert!(error.contains(says), "{fields}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_file_makes_the_loader_panic(
            lines in prop::collection::vec(
                prop_oneof![
                    any::<String>(),
                    r#"\{("(question|answer|entry_point|tests|asserts|statement|id|split|atol)":(""|"a"|1|null|\[\]|\[\{"args":\[1\]\}\]|\{\}),?){0,5}\}"#,
                ],
                0..4,
            )
        ) {
            let _ = load(&lines.join("\n"));
        }
    }
}
