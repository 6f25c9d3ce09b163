use datasets::{CodeTask, Task};
use proptest::prelude::*;

use super::*;

/// `mbppplus/2` and `mbppplus/3` are functions, `mbppplus/4` is a math problem.
fn dataset() -> Dataset {
    let task = |number: usize, spec: TaskSpec| Task::new(format!("mbppplus/{number}"), "?", spec);
    let code = || {
        TaskSpec::Code(CodeTask {
            entry_point: "f".to_owned(),
            asserts: vec!["assert f()".to_owned()],
            ..CodeTask::default()
        })
    };
    let math = TaskSpec::math("1");
    Dataset {
        name: "mbppplus".to_owned(),
        train: vec![task(2, code())],
        eval: vec![task(3, code()), task(4, math)],
    }
}

fn read(bytes: &[u8]) -> Result<Vec<Sample>, ScoreError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.jsonl");
    std::fs::write(&path, bytes).unwrap();
    read_samples(&path, &dataset())
}

fn sample(task: &str, completion: &str, is_whole_program: bool) -> Sample {
    Sample {
        task: task.to_owned(),
        prompt: String::new(),
        completion: completion.to_owned(),
        is_whole_program,
    }
}

#[test]
fn a_solution_is_a_whole_program_and_takes_precedence_over_a_completion() {
    let text = concat!(
        "{\"task_id\": \"Mbpp/2\", \"solution\": \"a\", \"_identifier\": \"Mbpp/2\"}\n\n",
        "{\"task_id\": \"Mbpp/3\", \"completion\": \"b\"}\r\n",
        "{\"task\": \"mbppplus/2\", \"completion\": \"c\", \"solution\": \"d\"}\n",
        "{\"id\": 3, \"completion\": \"e\", \"solution\": null, \"prompt\": \"p\"}",
    );
    let expected = [
        sample("mbppplus/2", "a", true),
        sample("mbppplus/3", "b", false),
        sample("mbppplus/2", "d", true),
        Sample {
            prompt: "p".to_owned(),
            ..sample("mbppplus/3", "e", false)
        },
    ];
    assert_eq!(read(text.as_bytes()).unwrap(), expected);
}

/// Lines that are no samples, each with a part of the message.
const BAD_LINES: &str = r#"
{ | it is not JSON (EOF while parsing an object, column 1)
[2, 3] | it is not a JSON object
task_id,completion | it is not a JSON object
{"completion": "a"} | it has no `task_id`, only `completion`; a sample is one line
{"taskid": 2, "completion": "a"} | is its `taskid` meant to be `task_id`?
{"task_id": 2} | it has no `completion` or `solution`, only `task_id`
{"task_id": 2, "completion": null} | its `completion` is null
{"id": 2, "solution": null, "Completion": ""} | its `solution` is null
{"task": null, "completion": "a"} | its `task` is null
{"task_id": NaN} | not JSON (JSON has no number `NaN`, column
{"task_id": 2, "Completion": "a"} | is its `Completion` meant to be `completion`?
{"task_id": [2], "completion": "a"} | `task_id` is an array; a text or a number is expected
{"task_id": 2, "completion": ["a"]} | `completion` is an array; a text is expected
{"task_id": 2, "completion": 1} | `completion` is a number; a text is expected
{"task_id": 2, "solution": {}} | `solution` is an object; a text is expected
{"task_id": 2, "completion": "", "prompt": true} | `prompt` is a boolean; a text is expected
{"task_id": 2, "task_id": 3, "completion": ""} | duplicate field `task_id`
{"task_id": 2, "completion": "", "completion": "a"} | duplicate field `completion`
{"task_id": 99, "completion": ""} | the data set `mbppplus` has no task `99`; the nearest of its 3 is `mbppplus/
{"task_id": "HumanEval/2", "completion": ""} | give --dataset humaneval
{"task_id": 4, "solution": ""} | `mbppplus/4` is not a code task; give `completion`
"#;

#[test]
fn a_bad_line_is_refused_with_its_number_and_the_reason() {
    let good = r#"{"task_id": 2, "completion": ""}"#;
    for line in BAD_LINES.trim().lines() {
        let (line, says) = line.split_once(" | ").unwrap();
        let error = read(format!("{good}\n\n{line}\n").as_bytes()).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("samples.jsonl, line 3: ") && error.contains(says),
            "{says} in {error}"
        );
        assert!(!error.contains("line 1"), "{error}");
    }
}

#[test]
fn a_file_without_samples_or_not_in_utf_8_is_an_error() {
    let latin_1 = b"{\"task_id\": 2, \"completion\": \"\xe9\"}";
    for (bytes, says) in [
        (&b""[..], "samples.jsonl: it holds no samples"),
        (b"\n \n", "samples.jsonl: it holds no samples"),
        ("\u{feff}".as_bytes(), "samples.jsonl: it holds no samples"),
        (latin_1, "line 1: byte 31 of the line is not UTF-8"),
    ] {
        let error = read(bytes).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_folder_of_programs_is_read_by_task_and_number() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let read = || read_samples(folder.path(), &dataset());
    write("Mbpp_3/notes.txt", "no program");
    write("readme.md", "none either");
    assert!(matches!(read(), Err(ScoreError::NoPrograms(_))));
    for (name, text) in [
        ("Mbpp_3/0.py", "c"),
        ("Mbpp_2/10.py", "b"),
        ("Mbpp_2/9.py", "a"),
    ] {
        write(name, text);
    }
    let expected = [
        sample("mbppplus/2", "a", true),
        sample("mbppplus/2", "b", true),
        sample("mbppplus/3", "c", true),
    ];
    assert_eq!(read().unwrap(), expected);
    write("Mbpp_5/0.py", "d");
    let error = read().unwrap_err().to_string();
    assert!(
        error.contains("0.py: the data set `mbppplus` has no task `Mbpp/5`"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn no_line_makes_reading_panic(line in r#"(\{|\}|\[|\]|"(task_id|task|id|completion|solution|prompt|\\ud800)"|:|,|2|null| ){0,20}"#) {
        let dataset = dataset();
        let _ = super::sample(&line, &TaskLookup::of(&dataset));
    }
}
