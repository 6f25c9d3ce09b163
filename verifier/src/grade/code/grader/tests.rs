use datasets::{CodeTest, Compare, ProgramTask, ProgramTest, Value};
use sandboxes::{Call, End, Run};
use verifier_api::Verdict;
use verifier_api::Verdict::{Correct, Incorrect, Malformed, Memory, Timeout, Unavailable};

use super::*;
use crate::fake_sandbox::{FakeSandbox, completed, ended, exited, finds_tests, no_tests, raised};

mod canonical;
mod clock;
mod faulty;
mod first_pass;
mod fuel;
mod inline;
mod stdio;

/// `f(n) == 2 * n` for 1, 2 and 3.
fn task(canonical: Option<&str>) -> CodeTask {
    doubling_task(3, canonical)
}

fn doubling_task(tests: i64, canonical: Option<&str>) -> CodeTask {
    let test = |n: i64| CodeTest {
        args: vec![Value::from(n)],
        expected: Some(Value::from(2 * n)),
    };
    CodeTask {
        entry_point: "f".to_owned(),
        canonical: canonical.map(str::to_owned),
        tests: (1..=tests).map(test).collect(),
        ..CodeTask::default()
    }
}

/// A task with test code only.
fn with_asserts(asserts: &[&str]) -> CodeTask {
    CodeTask {
        tests: Vec::new(),
        asserts: asserts.iter().map(|text| (*text).to_owned()).collect(),
        ..task(None)
    }
}

fn grader(sandbox: FakeSandbox) -> (CodeGrader, Arc<FakeSandbox>) {
    grader_with(sandbox, 1 << 20, None)
}

/// A grader that caches `memory` bytes of expected values in memory, and others in `store`.
fn grader_with(
    sandbox: FakeSandbox,
    memory: usize,
    store: Option<Arc<ExpectedValueStore>>,
) -> (CodeGrader, Arc<FakeSandbox>) {
    let sandbox = Arc::new(sandbox);
    let shared: Arc<dyn Sandbox> = Arc::<FakeSandbox>::clone(&sandbox);
    let grader = CodeGrader::new(shared, Limits::default(), memory, store);
    (grader, sandbox)
}

fn store(folder: &tempfile::TempDir) -> Option<Arc<ExpectedValueStore>> {
    Some(Arc::new(
        ExpectedValueStore::open(folder.path(), 1 << 20).unwrap(),
    ))
}

fn returned(values: &[&str]) -> Vec<Call> {
    values
        .iter()
        .map(|value| Call::Returned((*value).to_owned()))
        .collect()
}

/// A sandbox where a program with `word` needs this much fuel. All programs return the right values.
fn needing(word: &'static str, fuel: u64) -> FakeSandbox {
    FakeSandbox::new(move |source, _, limits| {
        if source.contains(word) && limits.fuel < fuel {
            return Ok(ended(returned(&["2"]), End::OutOfFuel));
        }
        Ok(completed(returned(&["2", "4", "6"])))
    })
}

/// The grading of a program that runs like `run`, for a task with recorded values.
fn grading(run: Run) -> Grading {
    let (grader, _) = grader(FakeSandbox::new(move |_, _, _| Ok(run.clone())));
    grader.judge(&task(None), "def f(n): ...", TestMode::All)
}

/// The result of a first pass over a program.
fn in_first_pass<'a>(
    grader: &CodeGrader,
    task: impl Into<CodingTask<'a>>,
    program: &str,
    mode: TestMode,
) -> Result<Grading, Pending> {
    let grader = grader.attempt(true, None);
    grader.grade(task, program, mode, &mut SampleState::default())
}

/// The verdict, how many tests passed, and how many there are.
fn outcome(grading: &Grading) -> (Verdict, u32, u32) {
    let count = |tests: Option<u32>| tests.unwrap_or(u32::MAX);
    (grading.verdict, count(grading.passed), count(grading.total))
}

/// Asserts that no try will judge the task, for a reason that contains `says`.
fn assert_bad_task(grading: &Grading, says: &str) {
    let found = (grading.verdict, grading.reward(), grading.retryable);
    assert_eq!(found, (Unavailable, None, false), "{says}");
    let reason = grading.detail["reason"].as_str().unwrap();
    assert!(reason.contains(says), "{reason}");
}

#[test]
fn the_end_of_a_run_decides_only_if_no_value_was_wrong() {
    use End::{Completed, MachineOutOfMemory, OutOfFuel, OutOfMemory, OutOfTime};
    let died = || End::Died("exit".to_owned());
    let (kind, message) = ("SyntaxError".to_owned(), "line 1".to_owned());
    let unloadable = End::Unloadable { kind, message };
    for (calls, end, verdict, passed) in [
        (&["2", "4.0", "6"][..], Completed, Correct, 3),
        (&["2", "5", "7"], Completed, Incorrect, 1),
        // More answers than calls.
        (&["2", "4", "6", "8"], Completed, Correct, 3),
        (&["2", "4"], Completed, Incorrect, 2),
        (&["2"], OutOfFuel, Timeout, 1),
        (&["3"], OutOfFuel, Incorrect, 0),
        (&["2", "4"], OutOfMemory, Memory, 2),
        (&["2"], died(), Incorrect, 1),
        (&["2", "4", "6"], died(), Incorrect, 3),
        (&[], unloadable, Incorrect, 0),
        // Even if a value decided the verdict, the number of passed tests depends on the clock.
        (&["2"], OutOfTime, Timeout, 1),
        (&["3"], OutOfTime, Incorrect, 0),
        (&["2"], MachineOutOfMemory, Memory, 1),
    ] {
        let grading = grading(ended(returned(calls), end.clone()));
        assert_eq!(outcome(&grading), (verdict, passed, 3), "{calls:?} {end:?}");
        let deterministic = !matches!(end, OutOfTime | MachineOutOfMemory);
        assert_eq!(grading.deterministic, deterministic, "{calls:?} {end:?}");
    }
}

#[test]
fn the_first_wrong_value_is_shown_with_its_type_if_it_has_no_encoding() {
    let opaque = r#"[{"$opaque":"generator"}]"#;
    for (got, no_encoding) in [("5", None), (opaque, Some("generator"))] {
        let detail = grading(completed(returned(&["2", got, "7"]))).detail;
        assert_eq!((&detail["test"], &detail["got"]), (&json!(1), &json!(got)));
        assert_eq!(detail["expected"], json!("4"));
        assert_eq!(detail["no_encoding"].as_str(), no_encoding);
    }
}

#[test]
fn an_exception_or_too_deep_a_value_is_a_failed_test() {
    let raised = raised("ValueError", &"x".repeat(5_000));
    for call in [raised, Call::TooDeepOrLarge] {
        let grading = grading(completed([returned(&["2", "4"]), vec![call]].concat()));
        assert_eq!(outcome(&grading), (Incorrect, 2, 3));
        assert!(grading.detail.to_string().len() < 2_000);
    }
}

#[test]
fn an_expected_value_without_an_encoding_is_unavailable() {
    for (value, encodable) in [
        (r#"{"$opaque":"Thing"}"#, false),
        (r#"[1,{"$opaque":"Thing"}]"#, false),
        (r#""{\"$opaque\":\"Thing\"}""#, true),
        (r#"{"$float":"nan"}"#, true),
    ] {
        let (grader, _) = grader(FakeSandbox::new(move |_, calls, _| {
            Ok(completed(returned(&vec![value; calls.len()])))
        }));
        let recorded = CodeTask {
            tests: vec![CodeTest {
                args: Vec::new(),
                expected: Some(Value::parse_json(value).unwrap()),
            }],
            ..task(None)
        };
        for task in [task(Some("the same")), recorded] {
            let grading = grader.judge(&task, "x = 1", TestMode::All);
            match encodable {
                true => assert_eq!(grading.verdict, Correct, "{value}"),
                false => assert_bad_task(&grading, "a value of type Thing"),
            }
            let only_whether = CodeTask {
                compare: Compare::NotNone,
                ..task
            };
            let grading = grader.judge(&only_whether, "x = 1", TestMode::All);
            assert_eq!(grading.verdict, Correct, "{value}");
        }
    }
}

#[test]
fn expected_values_come_from_one_run_of_the_canonical_solution() {
    let (grader, sandbox) = grader(FakeSandbox::doubling());
    let mut task = task(Some("right"));
    for test in &mut task.tests {
        test.expected = Some(Value::from(-1)); // The recorded values are ignored.
    }
    for (program, verdict) in [("right too", Correct), ("wrong", Incorrect)] {
        let grading = grader.judge(&task, program, TestMode::All);
        assert_eq!(grading.verdict, verdict);
    }
    assert_eq!(sandbox.runs(), 3);
}

#[test]
fn invalid_and_blank_texts_need_no_canonical_solution() {
    for extraction in [Extraction::Program, Extraction::LastBlock] {
        let (grader, sandbox) = grader(FakeSandbox::doubling());
        let grader = grader.extracting(extraction);
        let grading = grader.judge(&task(Some("right")), "no python", TestMode::UntilFailure);
        assert_eq!(outcome(&grading), (Incorrect, 0, 3));
        assert_eq!(
            grading.detail,
            json!({ "reason": "SyntaxError: invalid syntax, line 1", "fuel": 0 })
        );
        let blank = grader.judge(&task(Some("right")), " \n", TestMode::UntilFailure);
        assert_eq!((blank.verdict, sandbox.runs()), (Malformed, 0));
    }
}

#[test]
fn a_failure_of_the_sandbox_says_nothing_about_the_program() {
    for (error, retryable) in [
        (Deferred::Failed("x".to_owned()).into(), true),
        (SandboxError::Unusable("y".to_owned()), false),
    ] {
        let (grader, _) = grader(FakeSandbox::new(move |_, _, _| Err(error.clone())));
        let grading = grader.judge(&task(None), "program", TestMode::All);
        let found = (grading.verdict, grading.retryable);
        assert_eq!(found, (Unavailable, retryable));
    }
}

#[test]
fn asserts_count_with_the_tests_and_judging_may_end_with_a_failure() {
    use TestMode::{All, UntilFailure};
    let (grader, sandbox) = grader(FakeSandbox::doubling());
    let alone = with_asserts(&["assert f(9) == 18", "assert f(8) == 16"]);
    let both = CodeTask {
        tests: task(None).tests,
        ..alone.clone()
    };
    let value = &("got", json!("1"));
    let none = &("got", Json::Null);
    let text = &("assert", json!("assert f(9) == 18"));
    for (task, program, mode, expected, (field, shown), runs) in [
        // One run of the program, and one to parse the asserts.
        (&both, "wrong", UntilFailure, (Incorrect, 0, 5), value, 2),
        (&both, "wrong", All, (Incorrect, 1, 5), value, 2),
        (&both, "right", UntilFailure, (Correct, 5, 5), none, 2),
        (&both, "right", All, (Correct, 5, 5), none, 2),
        (&alone, "wrong", UntilFailure, (Incorrect, 0, 2), text, 1),
    ] {
        let before = sandbox.runs();
        let grading = grader.judge(task, program, mode);
        assert_eq!(outcome(&grading), expected, "{program} {mode:?}");
        assert_eq!(grading.detail[*field], *shown, "{program} {mode:?}");
        assert_eq!(sandbox.runs(), before + runs, "{program} {mode:?}");
    }
}

#[test]
fn calls_that_the_watch_did_not_see_are_checked_too() {
    for (values, end, watched, verdict, passed) in [
        (&["2", "4", "6"][..], End::Completed, false, Correct, 3),
        (&["2", "4", "7"], End::Completed, false, Incorrect, 2),
        // Broken off.
        (&["2", "4"], End::Watched, false, Incorrect, 2),
        (&["2", "4"], End::OutOfFuel, true, Timeout, 2),
    ] {
        let mut sandbox = FakeSandbox::new(move |_, _, _| Ok(ended(returned(values), end.clone())));
        sandbox.watched = watched;
        let (grader, _) = grader(sandbox);
        let grading = grader.judge(&task(None), "program", TestMode::UntilFailure);
        assert_eq!(outcome(&grading), (verdict, passed, 3), "{values:?}");
        assert!(
            passed == 3 || grading.detail["test"] == json!(2),
            "{values:?}"
        );
    }
}

/// Grades a program that stops in the calls `stops` and doubles its argument in the others. Returns the grading, and the fuel limit of each run.
fn stopping(stops: &'static [i64], end: End) -> (Grading, Vec<u64>) {
    let (grader, sandbox) = grader(FakeSandbox::new(move |_, calls, _| {
        let mut answers = Vec::new();
        for call in calls {
            let n: i64 = call.trim_matches(['[', ']']).parse().unwrap();
            if stops.contains(&n) {
                return Ok(ended(answers, end.clone()));
            }
            answers.push(Call::Returned((2 * n).to_string()));
        }
        Ok(completed(answers))
    }));
    let grading = grader.judge(&doubling_task(10, None), "program", TestMode::All);
    (grading, sandbox.fuel_limits())
}

#[test]
fn a_program_that_stops_is_run_again_for_the_tests_after_it_three_times() {
    let all: &[i64] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    // Each run of the script uses 1,000 units.
    let whole = Limits::default().fuel * 5 / 2;
    let twice = [whole, whole - 1_000];
    let left = [0, 1_000, 2_000, 3_000].map(|used| whole - used);
    let waits = [whole, whole / 8, whole / 8, whole / 8];
    for (stops, end, verdict, passed, fuel_limits) in [
        (&[2, 10][..], End::OutOfFuel, Timeout, 8, &twice[..]),
        (&[2, 10], End::OutOfMemory, Memory, 8, &twice),
        (&[2, 10], End::Died("exit".to_owned()), Incorrect, 8, &twice),
        (all, End::OutOfFuel, Timeout, 0, &left),
        (all, End::OutOfTime, Timeout, 0, &waits),
    ] {
        let (grading, seen) = stopping(stops, end);
        assert_eq!(outcome(&grading), (verdict, passed, 10));
        assert_eq!(grading.detail["test"], json!(stops[0] - 1));
        assert_eq!(seen, fuel_limits);
    }
}

#[test]
fn a_failing_further_run_does_not_turn_a_stop_into_an_error() {
    let (grader, _) = grader(FakeSandbox::new(|_, calls, _| {
        if calls[0] != "[1]" {
            return Err(SandboxError::Unusable("the test code is wrong".to_owned()));
        }
        Ok(ended(returned(&["2"]), End::OutOfFuel))
    }));
    let grading = grader.judge(&task(None), "program", TestMode::All);
    assert_eq!(outcome(&grading), (Timeout, 1, 3));
}

#[test]
fn each_test_that_test_code_defines_counts_as_one() {
    let (grader, sandbox) = grader(FakeSandbox::new(|source, calls, _| {
        if finds_tests(source) {
            assert_eq!(
                calls,
                [r#"["def check(c): pass","f"]"#, r#"["assert f(1)","f"]"#]
            );
            let found = r#"["def check(c): pass",[["check(f)","check(f)"],["g(f)","g(f)"]]]"#;
            return Ok(completed(returned(&[found, r#"["assert f(1)",[]]"#])));
        }
        assert_eq!(calls, ["check(f)", "g(f)", "assert f(1)"]);
        let mut results = returned(&["null"; 3]);
        results[1] = raised("AssertionError", "");
        Ok(completed(results))
    }));
    let task = with_asserts(&["def check(c): pass", "assert f(1)"]);
    for _ in 0..2 {
        let grading = grader.judge(&task, "program", TestMode::All);
        assert_eq!(outcome(&grading), (Incorrect, 2, 3));
        assert_eq!(grading.detail["assert"], json!("g(f)"));
    }
    assert_eq!(sandbox.runs(), 3, "the tests are read once");
}
