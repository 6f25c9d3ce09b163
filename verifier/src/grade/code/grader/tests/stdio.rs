//! Whole programs, each test a run of its own.

use sandboxes::MAX_STREAM_BYTES;

use super::*;

/// A program that doubles: 1, 2 and 3.
fn doubling() -> ProgramTask {
    let test = |n: u32| ProgramTest {
        stdin: format!("{n}\n"),
        stdout: (2 * n).to_string(),
    };
    ProgramTask {
        tests: (1..=3).map(test).collect(),
        time_limit: None,
    }
}

/// A sandbox where a program doubles the number in its standard input. `change` sees the number, and may change the run.
fn running(
    change: impl Fn(u32, Run) -> Run + Send + Sync + 'static,
) -> (CodeGrader, Arc<FakeSandbox>) {
    grader(FakeSandbox::new(move |_, stdin, _| {
        let n: u32 = stdin[0].trim().parse().unwrap();
        Ok(change(n, exited(0, &format!("{} \n\n", 2 * n))))
    }))
}

fn judged(grader: &CodeGrader, task: &ProgramTask, mode: TestMode) -> Grading {
    grader.judge(task, "print()", mode)
}

#[test]
fn every_test_is_a_run_and_judging_may_end_with_the_first_failed_one() {
    for (wrong, mode, verdict, passed, expected_runs) in [
        (None, TestMode::UntilFailure, Correct, 3, 3),
        (Some(2), TestMode::UntilFailure, Incorrect, 1, 2),
        (Some(2), TestMode::All, Incorrect, 2, 3),
    ] {
        let (grader, sandbox) = running(move |n, run| match Some(n) == wrong {
            true => exited(0, "5\n"),
            false => run,
        });
        let grading = judged(&grader, &doubling(), mode);
        assert_eq!(outcome(&grading), (verdict, passed, 3));
        assert_eq!(
            (sandbox.runs(), grading.deterministic),
            (expected_runs, true)
        );
        if wrong.is_some() {
            // Each run uses 1,000 units of fuel.
            let fuel = 1_000 * expected_runs;
            let detail = json!({ "test": 1, "line": 1, "expected": "4", "got": "5", "stdin": "2\n", "fuel": fuel });
            assert_eq!(grading.detail, detail);
        }
    }
}

#[test]
fn right_output_does_not_count_unless_the_program_exits_with_0() {
    for (end, verdict, deterministic) in [
        (exited(3, "").end, Incorrect, true),
        (End::TooMuchOutput, Incorrect, true),
        (End::Died("abort".to_owned()), Incorrect, true),
        (End::OutOfFuel, Timeout, true),
        (End::OutOfTime, Timeout, false),
        (End::OutOfMemory, Memory, true),
        (End::MachineOutOfMemory, Memory, false),
    ] {
        let exits = matches!(end, End::Exited { .. });
        let (grader, _) = running(move |_, run| Run {
            end: end.clone(),
            ..run
        });
        let grading = judged(&grader, &doubling(), TestMode::All);
        assert_eq!(outcome(&grading), (verdict, 0, 3));
        assert_eq!(grading.deterministic, deterministic);
        let detail = &grading.detail;
        assert!(detail["reason"].is_string(), "{detail}");
        if exits {
            assert_eq!(detail["reason"], json!("exit status 3"));
            assert_eq!(detail["stderr"], json!("ValueError: no"));
        }
    }
}

#[test]
fn all_tests_together_have_ten_times_the_fuel_of_one() {
    let limit = Limits::default().fuel * 5 / 2;
    let (grader, sandbox) = grader(FakeSandbox::new(move |_, _, limits| {
        Ok(Run {
            fuel: limits.fuel.min(limit / 10 * 9),
            ..exited(0, "2")
        })
    }));
    let task = ProgramTask {
        tests: vec![doubling().tests.remove(0); 20],
        time_limit: None,
    };
    let grading = judged(&grader, &task, TestMode::All);
    assert_eq!(outcome(&grading), (Timeout, 12, 20));
    let fuel_of_runs = sandbox.fuel_limits();
    assert_eq!(fuel_of_runs.len(), 12);
    assert_eq!((fuel_of_runs[0], fuel_of_runs[11]), (limit, limit / 10));
}

#[test]
fn tests_that_take_long_together_get_no_verdict_in_the_first_pass() {
    let (grader, _) = running(|_, run| Run {
        fuel: 1_500_000_000,
        ..run
    });
    let (task, mode) = (doubling(), TestMode::All);
    let graded = in_first_pass(&grader, &task, "print()", mode);
    assert_eq!(graded, Err(Pending::Deferred));
    assert_eq!(judged(&grader, &task, mode).verdict, Correct);
}

#[test]
fn a_completion_without_a_program_that_parses_is_not_run() {
    let (grader, sandbox) = running(|_, run| run);
    for (completion, verdict, total) in
        [(" \n", Malformed, None), ("no python", Incorrect, Some(3))]
    {
        let grading = grader.judge(&doubling(), completion, TestMode::All);
        assert_eq!((grading.verdict, grading.total), (verdict, total));
    }
    assert_eq!(sandbox.runs(), 0);
}

#[test]
fn impossible_tasks_and_failing_sandboxes_are_unavailable() {
    let (grader, sandbox) = running(|_, run| run);
    let (mut too_long, mut without) = (doubling(), doubling());
    too_long.tests[1].stdout = "x".repeat(MAX_STREAM_BYTES + 1);
    without.tests.clear();
    for (task, says) in [(without, "no tests"), (too_long, "`stdout` of test 1")] {
        assert_bad_task(&judged(&grader, &task, TestMode::All), says);
    }
    assert_eq!(sandbox.runs(), 0);
    let (grader, _) = super::grader(FakeSandbox::new(|_, _, _| {
        Err(Deferred::Failed("the engine is gone".to_owned()).into())
    }));
    let (task, mode) = (doubling(), TestMode::All);
    let grading = judged(&grader, &task, mode);
    assert_eq!((grading.verdict, grading.retryable), (Unavailable, true));
    let graded = in_first_pass(&grader, &task, "print()", mode);
    assert_eq!(graded, Err(Pending::Deferred));
}
