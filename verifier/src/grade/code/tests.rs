use std::sync::Mutex;
use std::sync::atomic::Ordering;

use datasets::{CodeTest, Compare, ProgramTask, ProgramTest, Value};
use sandboxes::{Call, End, Run};

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
    CodeTask {
        entry_point: "f".to_owned(),
        canonical: canonical.map(str::to_owned),
        tests: (1..=3)
            .map(|n| CodeTest {
                args: vec![Value::from(n)],
                expected: Some(Value::from(2 * n)),
            })
            .collect(),
        ..CodeTask::default()
    }
}

fn grader(sandbox: FakeSandbox) -> (CodeGrader, Arc<FakeSandbox>) {
    let sandbox = Arc::new(sandbox);
    let shared: Arc<dyn Sandbox> = Arc::<FakeSandbox>::clone(&sandbox);
    (
        CodeGrader::new(shared, Limits::default(), 1 << 20, None),
        sandbox,
    )
}

fn returned(values: &[&str]) -> Vec<Call> {
    values
        .iter()
        .map(|value| Call::Returned((*value).to_owned()))
        .collect()
}

/// A sandbox in which a program that contains `word` needs this much fuel. All programs return the right values.
fn needing(word: &'static str, fuel: u64) -> FakeSandbox {
    FakeSandbox::new(move |source, _, limits| {
        if source.contains(word) && limits.fuel < fuel {
            return Ok(ended(returned(&["2"]), End::OutOfFuel));
        }
        Ok(completed(returned(&["2", "4", "6"])))
    })
}

/// The grading of a program whose run is `run`, for a task with recorded values.
fn grading(run: Run) -> Grading {
    let (grader, _) = grader(FakeSandbox::new(move |_, _, _| Ok(run.clone())));
    grader.grade(&task(None), "def f(n): ...", TestMode::All)
}

/// The verdict, how many tests passed, and how many there are.
fn outcome(grading: &Grading) -> (Verdict, Option<u32>, Option<u32>) {
    (grading.verdict, grading.passed, grading.total)
}

#[test]
fn the_end_of_a_run_decides_only_if_no_value_was_wrong() {
    let died = || End::Died("exit".to_owned());
    let unloadable = End::Unloadable {
        kind: "SyntaxError".to_owned(),
        message: "line 1".to_owned(),
    };
    for (calls, end, verdict, passed) in [
        (
            &["2", "4.0", "6"][..],
            End::Completed,
            Verdict::Correct,
            Some(3),
        ),
        (
            &["2", "5", "7"],
            End::Completed,
            Verdict::Incorrect,
            Some(1),
        ),
        // More answers than calls.
        (
            &["2", "4", "6", "8"],
            End::Completed,
            Verdict::Correct,
            Some(3),
        ),
        (&["2", "4"], End::Completed, Verdict::Incorrect, None),
        (&["2"], End::OutOfFuel, Verdict::Timeout, None),
        (&["3"], End::OutOfFuel, Verdict::Incorrect, None),
        (&["2", "4"], End::OutOfMemory, Verdict::Memory, None),
        (&["2"], died(), Verdict::Incorrect, None),
        (&["2", "4", "6"], died(), Verdict::Incorrect, None),
        (&[], unloadable, Verdict::Incorrect, None),
    ] {
        let grading = grading(ended(returned(calls), end.clone()));
        assert_eq!(grading.verdict, verdict, "{calls:?} {end:?}");
        assert!(passed.is_none() || grading.passed == passed, "{calls:?}");
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
    for call in [
        raised("ValueError", &"x".repeat(5_000)),
        Call::TooDeepOrLarge,
    ] {
        let grading = grading(completed([returned(&["2", "4"]), vec![call]].concat()));
        assert_eq!(outcome(&grading), (Verdict::Incorrect, Some(2), Some(3)));
        assert!(grading.detail.to_string().len() < 2_000);
    }
}

#[test]
fn a_task_whose_expected_value_has_no_encoding_is_unavailable_and_a_nan_equals_a_nan() {
    for (value, verdict) in [
        (r#"{"$opaque":"Thing"}"#, Verdict::Unavailable),
        (r#"[1,{"$opaque":"Thing"}]"#, Verdict::Unavailable),
        (r#""{\"$opaque\":\"Thing\"}""#, Verdict::Correct),
        (r#"{"$float":"nan"}"#, Verdict::Correct),
    ] {
        let (grader, _) = grader(FakeSandbox::new(move |_, calls, _| {
            Ok(completed(
                calls
                    .iter()
                    .map(|_| Call::Returned(value.to_owned()))
                    .collect(),
            ))
        }));
        let recorded = CodeTask {
            tests: vec![CodeTest {
                args: Vec::new(),
                expected: Some(Value::parse_json(value).unwrap()),
            }],
            ..task(None)
        };
        for task in [task(Some("the same")), recorded] {
            let grading = grader.grade(&task, "x = 1", TestMode::All);
            assert_eq!(
                (grading.verdict, grading.retryable),
                (verdict, false),
                "{value}"
            );
            if verdict == Verdict::Unavailable {
                let reason = grading.detail["reason"].as_str().unwrap();
                assert!(reason.contains("a value of type Thing"), "{reason}");
            }
            let only_whether = CodeTask {
                compare: Compare::NotNone,
                ..task
            };
            let grading = grader.grade(&only_whether, "x = 1", TestMode::All);
            assert_eq!(grading.verdict, Verdict::Correct, "{value}");
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
    assert_eq!(
        grader.grade(&task, "right too", TestMode::All).verdict,
        Verdict::Correct
    );
    assert_eq!(
        grader.grade(&task, "wrong", TestMode::All).verdict,
        Verdict::Incorrect
    );
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 3);
}

#[test]
fn invalid_python_is_judged_without_the_canonical_solution() {
    for extraction in [Extraction::Program, Extraction::LastBlock] {
        let (grader, sandbox) = grader(FakeSandbox::doubling());
        let grader = grader.extracting(extraction);
        let grading = grader.grade(&task(Some("right")), "no python", TestMode::UntilFailure);
        assert_eq!(outcome(&grading), (Verdict::Incorrect, Some(0), Some(3)));
        assert_eq!(
            grading.detail,
            json!({ "reason": "SyntaxError: invalid syntax, line 1", "fuel": 0 })
        );
        assert_eq!(sandbox.runs.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn expected_values_are_stored_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(ExpectedValueStore::open(folder.path(), 1 << 20).unwrap());
    for runs in [2, 1] {
        let sandbox = Arc::new(FakeSandbox::doubling());
        let shared: Arc<dyn Sandbox> = Arc::<FakeSandbox>::clone(&sandbox);
        let grader = CodeGrader::new(shared, Limits::default(), 1 << 20, Some(Arc::clone(&store)));
        assert_eq!(
            grader
                .grade(&task(Some("right")), "right too", TestMode::All)
                .verdict,
            Verdict::Correct
        );
        assert_eq!(sandbox.runs.load(Ordering::SeqCst), runs);
    }
}

#[test]
fn a_task_whose_canonical_solution_fails_is_unavailable_with_the_reason() {
    let (grader, _) = grader(FakeSandbox::new(|_, _, _| {
        Ok(ended(Vec::new(), End::OutOfFuel))
    }));
    let grading = grader.grade(&task(Some("solution")), "program", TestMode::All);
    assert_eq!(
        (grading.verdict, grading.reward(), grading.retryable),
        (Verdict::Unavailable, None, false)
    );
    assert!(
        grading.detail["reason"]
            .as_str()
            .unwrap()
            .contains("canonical solution")
    );
}

#[test]
fn a_failure_of_the_sandbox_says_nothing_about_the_program() {
    for (error, retryable) in [
        (Deferred::Failed("x".to_owned()).into(), true),
        (SandboxError::Unusable("y".to_owned()), false),
    ] {
        let (grader, _) = grader(FakeSandbox::new(move |_, _, _| Err(error.clone())));
        let grading = grader.grade(&task(None), "program", TestMode::All);
        assert_eq!(
            (grading.verdict, grading.retryable),
            (Verdict::Unavailable, retryable)
        );
    }
}

#[test]
fn a_blank_completion_is_malformed() {
    let (grader, sandbox) = grader(FakeSandbox::doubling());
    assert_eq!(
        grader.grade(&task(None), " \n", TestMode::All).verdict,
        Verdict::Malformed
    );
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 0);
}

#[test]
fn asserts_count_with_the_tests_and_run_even_if_these_fail() {
    let (grader, sandbox) = grader(FakeSandbox::doubling());
    let task = CodeTask {
        asserts: vec!["assert f(9) == 18".to_owned()],
        ..task(None)
    };
    let right = grader.grade(&task, "right", TestMode::All);
    assert_eq!(outcome(&right), (Verdict::Correct, Some(4), Some(4)));
    let runs = sandbox.runs.load(Ordering::SeqCst);
    let wrong = grader.grade(&task, "wrong", TestMode::All);
    assert_eq!(outcome(&wrong), (Verdict::Incorrect, Some(1), Some(4)));
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), runs + 2);
}

#[test]
fn judging_until_failure_ends_with_the_first_failure() {
    let (grader, sandbox) = grader(FakeSandbox::doubling());
    let task = CodeTask {
        asserts: vec![
            "assert f(9) == 18".to_owned(),
            "assert f(8) == 16".to_owned(),
        ],
        ..task(None)
    };
    let wrong = grader.grade(&task, "wrong", TestMode::UntilFailure);
    assert_eq!(outcome(&wrong), (Verdict::Incorrect, Some(0), Some(5)));
    assert_eq!(
        (wrong.detail["test"].as_u64(), wrong.detail["got"].as_str()),
        (Some(0), Some("1"))
    );
    // One run of the program, and one to parse the asserts.
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 2);
    let right = grader.grade(&task, "right", TestMode::UntilFailure);
    assert_eq!(outcome(&right), (Verdict::Correct, Some(5), Some(5)));
    let asserts_alone = CodeTask {
        tests: Vec::new(),
        ..task
    };
    let wrong = grader.grade(&asserts_alone, "wrong", TestMode::UntilFailure);
    assert_eq!(outcome(&wrong), (Verdict::Incorrect, Some(0), Some(2)));
    assert_eq!(wrong.detail["assert"].as_str(), Some("assert f(9) == 18"));
}

#[test]
fn a_program_that_stops_without_a_failure_gets_the_verdict_of_its_end() {
    let (grader, _) = grader(FakeSandbox::new(|_, _, _| {
        Ok(ended(returned(&["2", "4"]), End::OutOfFuel))
    }));
    let grading = grader.grade(&task(None), "slow", TestMode::UntilFailure);
    assert_eq!(outcome(&grading), (Verdict::Timeout, Some(2), Some(3)));
    assert_eq!(grading.detail["test"].as_u64(), Some(2));
}

#[test]
fn calls_that_the_watch_did_not_see_are_checked_too() {
    let end_after = |calls: usize, end: End| {
        let mut sandbox = FakeSandbox::new(move |source, _, _| {
            let third = if source.contains("right") { "6" } else { "7" };
            let values = ["2", "4", third];
            Ok(ended(returned(&values[..calls]), end.clone()))
        });
        sandbox.watched = false;
        let (grader, _) = grader(sandbox);
        move |source: &str| {
            let grading = grader.grade(&task(None), source, TestMode::UntilFailure);
            (grading.verdict, grading.passed)
        }
    };
    let whole = end_after(3, End::Completed);
    assert_eq!(whole("right"), (Verdict::Correct, Some(3)));
    assert_eq!(whole("wrong"), (Verdict::Incorrect, Some(2)));
    let broken_off = end_after(2, End::Watched);
    assert_eq!(broken_off("right"), (Verdict::Incorrect, Some(2)));
}

/// Grades a program that stops in the calls `stops` and doubles its argument in the others. Returns the grading, and the fuel limit of each run.
fn stopping(stops: &'static [i64], end: End) -> (Grading, Vec<u64>) {
    let limits_seen = Arc::new(Mutex::new(Vec::new()));
    let recorder = Arc::clone(&limits_seen);
    let (grader, _) = grader(FakeSandbox::new(move |_, calls, limits| {
        recorder.lock().unwrap().push(limits.fuel);
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
    let task = CodeTask {
        tests: (1..=10)
            .map(|n| CodeTest {
                args: vec![Value::from(n)],
                expected: Some(Value::from(2 * n)),
            })
            .collect(),
        ..task(None)
    };
    let grading = grader.grade(&task, "program", TestMode::All);
    let fuel_limits = limits_seen.lock().unwrap().clone();
    (grading, fuel_limits)
}

#[test]
fn tests_after_one_in_which_the_program_stops_count_too() {
    for (end, verdict) in [
        (End::OutOfFuel, Verdict::Timeout),
        (End::OutOfMemory, Verdict::Memory),
        (End::Died("exit".to_owned()), Verdict::Incorrect),
    ] {
        let (grading, fuel_limits) = stopping(&[2, 10], end);
        assert_eq!(outcome(&grading), (verdict, Some(8), Some(10)));
        assert_eq!(grading.detail["test"].as_u64(), Some(1));
        assert_eq!(fuel_limits.len(), 2);
    }
}

#[test]
fn a_further_run_that_fails_does_not_turn_a_stop_into_an_error_of_the_task() {
    let (grader, _) = grader(FakeSandbox::new(|_, calls, _| {
        if calls[0] != "[1]" {
            return Err(SandboxError::Unusable("the test code is wrong".to_owned()));
        }
        Ok(ended(returned(&["2"]), End::OutOfFuel))
    }));
    let grading = grader.grade(&task(None), "program", TestMode::All);
    assert_eq!(outcome(&grading), (Verdict::Timeout, Some(1), Some(3)));
}

#[test]
fn a_program_that_stops_in_every_test_gets_four_runs() {
    let all: &[i64] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    let (grading, fuel_limits) = stopping(all, End::OutOfFuel);
    assert_eq!(outcome(&grading), (Verdict::Timeout, Some(0), Some(10)));
    // Each run of the script uses 1,000 units.
    let whole = Limits::default().fuel * 5 / 2;
    assert_eq!(
        fuel_limits,
        [whole, whole - 1_000, whole - 2_000, whole - 3_000]
    );
}

#[test]
fn each_test_that_test_code_defines_counts_as_one() {
    let (grader, sandbox) = grader(FakeSandbox::new(|source, calls, _| {
        if finds_tests(source) {
            assert_eq!(
                calls,
                [r#"["def check(c): pass","f"]"#, r#"["assert f(1)","f"]"#]
            );
            let none = Call::Returned(r#"["assert f(1)",[]]"#.to_owned());
            let found = r#"["def check(c): pass",[["check(f)","check(f)"],["g(f)","g(f)"]]]"#;
            return Ok(completed(vec![Call::Returned(found.to_owned()), none]));
        }
        assert_eq!(calls, ["check(f)", "g(f)", "assert f(1)"]);
        let passed = || Call::Returned("null".to_owned());
        let failed = raised("AssertionError", "");
        Ok(completed(vec![passed(), failed, passed()]))
    }));
    let task = CodeTask {
        tests: Vec::new(),
        asserts: vec!["def check(c): pass".to_owned(), "assert f(1)".to_owned()],
        ..task(None)
    };
    for _ in 0..2 {
        let grading = grader.grade(&task, "program", TestMode::All);
        assert_eq!(outcome(&grading), (Verdict::Incorrect, Some(2), Some(3)));
        assert_eq!(grading.detail["assert"].as_str(), Some("g(f)"));
    }
    assert_eq!(
        sandbox.runs.load(Ordering::SeqCst),
        3,
        "the tests are read once"
    );
}
