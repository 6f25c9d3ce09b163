use std::io::Write as _;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn load(text: &str) -> Result<Dataset, String> {
    parse("mine", text).map_err(|e| e.to_string())
}

fn ids(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.id.as_str()).collect()
}

#[test]
fn a_file_may_be_packed_and_splits_have_other_names() {
    let folder = tempfile::tempdir().unwrap();
    let splits = ["train", "eval", "test", "validation", "dev"];
    let line = |split: &&str| format!(r#"{{"question":"a\ud83d","answer":"1","split":"{split}"}}"#);
    let plain = splits.iter().map(line).collect::<Vec<_>>().join("\r\n");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(plain.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    for (name, bytes) in [
        ("mine.JSONL", plain.into_bytes()),
        ("mine.jsonl.gz", packed),
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
fn records_keep_their_ids_and_are_in_both_splits_if_none_names_one() {
    let record = |more: &str| format!("{{{more}\"question\":\"q\",\"answer\":\"1\"}}\n");
    let undivided = load(&record("").repeat(2)).unwrap();
    assert_eq!(ids(&undivided.train), ["mine/1", "mine/2"]);
    assert_eq!(ids(&undivided.eval), ids(&undivided.train));
    let named = [r#""id":"f","split":"eval","#, r#""id":7,"split":"eval","#];
    let named = named.map(record).concat();
    let divided = load(&(record("") + &named + &record(r#""id":"p","#))).unwrap();
    assert_eq!(ids(&divided.train), ["mine/1", "mine/p"]);
    assert_eq!(ids(&divided.eval), ["mine/f", "mine/7"]);
    let human_eval = r#"{"task_id":"HumanEval/3","prompt":"def f(","entry_point":"f","canonical_solution":"","test":""}"#;
    assert_eq!(ids(&load(human_eval).unwrap().eval), ["mine/3"]);
}

/// Records that are refused, each with the start of the message after the file and the line.
const REFUSED: &str = r##"
{"question":"a","anwser":"1"} | : the field `anwser` is not known; did you mean `answer`?
{"question":"a","answer":""} | , field `answer`: it is empty
{"question":"a","answer":"\frac{1}{2}"} | , field `answer`: it has the control character U+000C
{"question":"a","answer":"It is\n#### "} | , field `answer`: nothing follows its last `####`
{"question":"a","answer":"9 - 2 = 7\n#### 7\nDone."} | , field `answer`: several lines follow its last `####`
{"question":null,"answer":"1"} | , field `question`: the field is missing (`prompt` and `problem` work too); the record has answer, question (null)
{"question":"a","answer":NaN} | , field `answer`: it is no finite number; give a text or a number
{"question":"a","answer":-Infinity} | , field `answer`: it is no finite number; give a text or a number
{"question":"a","answer":1e999} | , field `answer`: it is no finite number; give a text or a number
{"question":NaN,"answer":"1"} | , field `question`: it must be a string, not a number
{"id":NaN,"question":"a","answer":"1"} | , field `id`: it must be a string or a whole number, not a number
{"question":"q","entry_point":"f","asserts":["f"],"atol":NaN} | , field `atol`: it must be a number, 0 or more
{"question":"a","answer":[1]} | , field `answer`: it must be a string or a number, not an array
{"answer":"1"} | , field `question`: the field is missing (`prompt` and `problem` work too)
{"question":"a"} | : the record has neither `answer` (math) nor `entry_point` (a function) nor `tests` (a program) nor `statement` (Lean); it has question
{"question":"a","answer":"1","split":"tests"} | , field `split`: `train`, `eval`, `test`, `validation` or `dev` is expected, not `tests`
{"statement":"theorem t : True"} | , field `statement`: the statement is expected to end in `:= by`, after which the proof follows
{"question":"q","entry_point":"f(x)","asserts":["assert f"]} | , field `entry_point`: `f(x)` is not the name of a Python function
{"question":"q","entry_point":"Solution.f","asserts":["assert f"]} | , field `entry_point`: `Solution.f` is not the name of a Python function; write a method as `Solution().f`
{"question":"q","entry_point":"f","canonical":"class Solution:\n    def f(self):\n        return 1\n","tests":[{"args":[]}]} | , field `entry_point`: `f` is a method of `Solution`; write `Solution().f`, or add `class_name`
{"question":"Complete it:\n```python\nclass Solution:\n    def f(self, n: int) -> int:\n```","entry_point":"f","tests":[{"args":[1],"expected":1}]} | , field `entry_point`: `f` is a method of `Solution`; write `Solution().f`
{"question":"q","entry_point":"f","asserts":["assert f"],"time_limit":"2"} | , field `time_limit`: a number of seconds is expected, above 0 and at most 60
{"question":"q","entry_point":"class","asserts":["assert f"]} | , field `entry_point`: `class` is a keyword of Python, so it cannot be the name of a function; give the name that the completion must define
{"question":"q","entry_point":"f","asserts":["assert f", " "]} | , field `asserts[1]`: it is empty, and tests nothing; leave it out
{"question":"q","entry_point":"f"} | , field `tests`: a code task needs at least one element in `tests` or `asserts`
{"question":"q","tests":[]} | , field `tests`: a program needs at least one test
{"question":"q","tests":[{"stdin":"1"}]} | , field `tests[0].stdout`: it is missing; a test of a program is
{"question":"q","tests":[{"args":[1],"expected":2}]} | , field `tests[0].stdin`: it is missing; a test of a program is {"stdin": …, "stdout": …}, both text; the record of a function has an `entry_point`
{"question":"q","tests":[{"stdin":1,"stdout":"2"}]} | , field `tests[0].stdin`: it must be a string, not a number; a test of a program is
{"question":"q","entry_point":"f","tests":[{"args":[]}]} | , field `tests[0].expected`: it is missing, and there is no `canonical` program to compute it
{"question":"q","entry_point":"f","tests":[{"args":[],"expect":1}]} | , field `tests[0].expect`: there is no such field; did you mean `expected`?
{"question":"q","entry_point":"f","tests":[{"args":[{"$tupel":[]}],"expected":1}]} | , field `tests[0].args[0]`: `$tupel` is not a tag
"##;

#[test]
fn a_wrong_record_is_refused_with_file_line_field_and_remedy() {
    for line in REFUSED.trim().lines() {
        let (record, message) = line.split_once(" | ").unwrap();
        let error = load(record).expect_err(record);
        let message = format!("mine.jsonl, line 1{message}");
        assert!(error.starts_with(&message), "{record}\n{error}");
    }
    let twice = "{\"id\":\"x\",\"question\":\"a\",\"answer\":\"1\"}\n".repeat(2);
    let error = load(&twice).expect_err("the id must be refused");
    let message =
        "mine.jsonl, line 2, field `id`: number 1 has the same id; ids are unique in a file";
    assert!(error.starts_with(message), "{error}");
}

/// Records of each kind, in the program's own, published and other common forms, each with its question and the rest of its task, or the error.
const FORMS: &str = r##"
{"prompt":"1+1?","answer":2,"source":"me"} | 1+1? | {"kind":"math","answer":"2"}
{"question":"q","answer":0.50} | q | {"kind":"math","answer":"0.5"}
{"question":"q","answer":2.0} | q | {"kind":"math","answer":"2.0"}
{"question":"q","answer":1e-7} | q | {"kind":"math","answer":"0.0000001"}
{"question":"q","answer":-2.5E20} | q | {"kind":"math","answer":"-250000000000000000000"}
{"question":"q","answer":123456789012345678901234567890} | q | {"kind":"math","answer":"123456789012345678901234567890"}
{"question":"q","entry_point":"f","class_name":"Solution","tests":[{"args":[{"$tuple":[1]}],"expected":{"$set":[]}}],"atol":1,"compare":"set"} | q | {"kind":"code","entry_point":"Solution().f","tests":[{"args":[{"$tuple":[1]}],"expected":{"$set":[]}}],"atol":1.0,"compare":"set"}
{"statement":"theorem t : True := by\n","header":"import Std\n"} |  | {"kind":"lean","header":"import Std","statement":"theorem t : True := by"}
{"question":"q","prompt":[{"role":"user"}],"tests":[{"stdin":"1\n","stdout":"2"}],"time_limit":2.5} | q | {"kind":"program","tests":[{"stdin":"1\n","stdout":"2"}],"time_limit":2.5}
{"question":"1+1?","answer":"1+1=2\n#### 2"} | 1+1? | {"kind":"math","answer":"2"}
{"problem":"p","level":"Level 1","type":"Algebra","solution":"So $\\boxed{3}$."} | p | {"kind":"math","answer":"3"}
{"problem":"p","answer":"4","solution":"So \\boxed{3}."} | p | {"kind":"math","answer":"4"}
{"instruction":"i","ground_truth":7} | i | {"kind":"math","answer":"7"}
{"prompt":[{"role":"system","content":"s"},{"role":"user","content":"u"}],"answer":"1"} | s\n\nu | {"kind":"math","answer":"1"}
{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}],"label":"1"} | c | {"kind":"math","answer":"1"}
{"prompt":[{"role":"user","content":"u"}],"reward_model":{"ground_truth":"34","style":"rule"},"extra_info":{"index":1}} | u | {"kind":"math","answer":"34"}
{"text":"Sort.","code":"def g(x):\n  return x\ndef f(x):\n  return x","task_id":11,"test_setup_code":"import math","test_list":["assert set(f((1))) == {1}"],"challenge_test_list":[]} | Sort. | {"kind":"code","entry_point":"f","asserts":["assert set(f((1))) == {1}"],"canonical":"def g(x):\n  return x\ndef f(x):\n  return x","imports":["import math"]}
{"prompt":"Add.","source_file":"x","test_imports":[],"test_list":["assert math.isclose(add(1), 2)"]} | Add. | {"kind":"code","entry_point":"add","asserts":["assert math.isclose(add(1), 2)"]}
{"question":"Echo.","solutions":"[]","input_output":"{\"inputs\":[\"1\\n\",[\"2\",\"3\"]],\"outputs\":[\"1\\n\",[\"2\",\"3\"]]}","difficulty":"x","starter_code":""} | Echo. | {"kind":"program","tests":[{"stdin":"1\n","stdout":"1\n"},{"stdin":"2\n3","stdout":"2\n3"}]}
{"question":"Neg.","input_output":"{\"fn_name\":\"neg\",\"inputs\":[[1],[2]],\"outputs\":[[-1],[-2]]}","starter_code":"class Solution:\n    def neg(self, x):"} | Neg.\n\nclass Solution:\n    def neg(self, x): | {"kind":"code","entry_point":"Solution().neg","tests":[{"args":[1],"expected":-1},{"args":[2],"expected":-2}]}
{"question":"Pair.","input_output":{"fn_name":"f","inputs":[[1]],"outputs":[[1,2]]}} | Pair. | {"kind":"code","entry_point":"f","tests":[{"args":[1],"expected":[1,2]}]}
{"name":"n","description":"Echo.","public_tests":{"input":["1\n"],"output":["1"]},"private_tests":{"input":[],"output":[]},"generated_tests":{"input":["2"],"output":["2"]},"time_limit":{"seconds":1,"nanos":500000000}} | Echo. | {"kind":"program","tests":[{"stdin":"1\n","stdout":"1"},{"stdin":"2","stdout":"2"}],"time_limit":1.5}
{"task_id":"HumanEval/3","prompt":"import math\n\ndef g(x):\n    return x\n\ndef f(x):\n    \"\"\" say it \"\"\"\n","entry_point":"f","canonical_solution":"    return x\n","test":"def check(candidate):\n    assert candidate(1) == 1\n"} | import math\n\ndef g(x):\n    return x\n\ndef f(x):\n    """ say it """\n | {"kind":"code","entry_point":"f","asserts":["def check(candidate):\n    assert candidate(1) == 1\n"],"prefix":"import math\n\ndef g(x):\n    return x\n\ndef f(x):\n    \"\"\" say it \"\"\"\n","canonical":"import math\n\ndef g(x):\n    return x\n\ndef f(x):\n    \"\"\" say it \"\"\"\n    return x\n","imports":["import math\n\ndef g(x):\n    return x"]}
{"task_id":"HumanEval/32","prompt":"def find_zero(xs):\n","entry_point":"find_zero","canonical_solution":"    return 0\n","base_input":[[[1,2]]],"plus_input":[[[3,4]]],"atol":0.0001,"test":"x"} | def find_zero(xs):\n | {"kind":"code","entry_point":"find_zero","tests":[{"args":[[1,2]]},{"args":[[3,4]]}],"prefix":"def find_zero(xs):\n","canonical":"def find_zero(xs):\n    return 0\n","atol":0.0001,"compare":"root"}
{"task_id":"HumanEval/7","prompt":"def find_zero(xs):\n","entry_point":"find_zero","canonical_solution":"    return 0\n","base_input":[[[1,2]]],"plus_input":[[[3,4]]],"atol":0.0001,"test":"x"} | def find_zero(xs):\n | {"kind":"code","entry_point":"find_zero","tests":[{"args":[[1,2]]},{"args":[[3,4]]}],"prefix":"def find_zero(xs):\n","canonical":"def find_zero(xs):\n    return 0\n","atol":0.0001}
{"prompt":"def f(x):","entry_point":"f","asserts":["assert f(1)"]} | def f(x): | {"kind":"code","entry_point":"f","asserts":["assert f(1)"]}
{"task_id":"Mbpp/2","prompt":"Write f.\nassert f(1)","entry_point":"f","canonical_solution":"x","base_input":[]} | , field `tests`: a code task needs at least one element
{"prompt":"def g(x):\n  def f(","entry_point":"f","canonical_solution":"x","test":""} | : the field `test` is not known; did you mean `tests`?
{"question":"q","input_output":""} | , field `input_output`: it is not JSON
{"question":"q","input_output":"{\"inputs\":[],\"outputs\":[]}"} | , field `input_output`: it has no test
{"description":"d","public_tests":{"input":["1"],"output":[]}} | , field `public_tests.output`: there are 0 for 1 input
{"description":"d","public_tests":{"input":["1"],"output":["1"]},"time_limit":{"seconds":61}} | , field `time_limit`: it is not from 0 to 60 seconds
{"prompt":"p","test_list":[]} | , field `test_list`: no assertion calls a function
{"messages":[{"role":"assistant","content":"b"}],"answer":"1"} | , field `messages`: no message has the role `user`
{"problem":"p","solution":"We count the apples on the table and then we count those on the chair too."} | , field `solution`: it is prose
{"problem":"p","soln":"3"} | : the record has neither `answer` (math) nor `entry_point` (a function) nor `tests` (a program) nor `statement` (Lean); it has problem, soln; if the column `soln` is the answer, write `data.columns = { answer = "soln" }` in the recipe
{"task_text":"p","answer":"3"} | , field `question`: the field is missing (`prompt` and `problem` work too); the record has answer, task_text; if the column `task_text` is the question, write `data.columns = { question = "task_text" }` in the recipe
"##;

#[test]
fn records_in_known_forms_are_read_unchanged() {
    for line in FORMS.trim().lines() {
        let parts: Vec<&str> = line.splitn(3, " | ").collect();
        let read = load(parts[0]);
        match parts[..] {
            [_, question, spec] => {
                let task = &read.expect(line).train[0];
                assert_eq!(task.question.replace('\n', "\\n"), question, "{line}");
                let spec: serde_json::Value = serde_json::from_str(spec).unwrap();
                assert_eq!(json!(task.spec), spec, "{line}");
            }
            [_, error] => {
                let message = format!("mine.jsonl, line 1{error}");
                let read = read.expect_err(line);
                assert!(read.starts_with(&message), "{read}");
            }
            _ => panic!("{line}"),
        }
    }
}

#[test]
fn a_source_names_the_columns_and_the_grader() {
    let record =
        r#"{"anfrage":"a","question":"b","soln":"3","split":"dev","kind":"x","none":null}"#;
    let load = |columns: &[(&str, &str)], grader: Option<&str>| {
        let named = |(field, column): &(&str, &str)| ((*field).to_owned(), (*column).to_owned());
        let source = Source {
            columns: columns.iter().map(named).collect(),
            grader: grader.map(str::to_owned),
            ..Source::default()
        };
        let mut reader = Reader::new(&source, "mine");
        let read = record::parse("mine.jsonl", record, |number, fields| {
            reader.task(number, fields)
        });
        let task = read.map(|mut tasks| tasks.remove(0).0);
        task.map(|task| (task.question.clone(), json!(task.spec)))
            .map_err(|error| error.to_string())
    };
    let columns = [("question", "anfrage"), ("answer", "soln")];
    let math = json!({"kind": "math", "answer": "3"});
    assert_eq!(load(&columns, Some("math")), Ok(("a".to_owned(), math)));
    let own = json!({"kind": "own", "anfrage": "a", "question": "b", "soln": "3"});
    assert_eq!(load(&[], Some("own")), Ok(("b".to_owned(), own)));
    for (columns, reason) in [
        (
            [("answer", "solution")],
            "there is no column `solution` for `answer`; the record has anfrage, kind, question, soln, split, none (null); if the column `soln` is the answer, write `data.columns = { answer = \"soln\" }` in the recipe",
        ),
        (
            [("anwser", "soln")],
            "`anwser` in `data.columns` is no field of a task (did you mean `answer`?)",
        ),
        (
            [("answer", "none")],
            "the record has neither `answer` (math)",
        ),
    ] {
        let error = load(&columns, Some("math")).unwrap_err();
        assert!(error.contains(reason), "{error}");
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
