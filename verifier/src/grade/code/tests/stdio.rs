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

/// A sandbox whose runs depend on the standard input.
fn running(run: impl Fn(&str) -> Run + Send + Sync + 'static) -> (CodeGrader, Arc<FakeSandbox>) {
    grader(FakeSandbox::new(move |_, stdin, _| Ok(run(&stdin[0]))))
}

#[test]
fn every_test_is_a_run_whose_output_is_compared() {
    let (grader, sandbox) = running(|stdin| {
        let n: u32 = stdin.trim().parse().unwrap();
        exited(0, &format!("{} \n\n", 2 * n))
    });
    let grading = grader.grade_program(&doubling(), "print()", TestMode::UntilFailure);
    assert_eq!(outcome(&grading), (Verdict::Correct, Some(3), Some(3)));
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 3);
    assert!(grading.deterministic);
}

#[test]
fn a_failed_test_ends_judging_unless_all_tests_are_asked_for() {
    for (mode, passed, runs) in [(TestMode::UntilFailure, 1, 2), (TestMode::All, 2, 3)] {
        let (grader, sandbox) = running(|stdin| match stdin {
            "2\n" => exited(0, "5\n"),
            other => exited(0, &(2 * other.trim().parse::<u32>().unwrap()).to_string()),
        });
        let grading = grader.grade_program(&doubling(), "print()", mode);
        assert_eq!(
            outcome(&grading),
            (Verdict::Incorrect, Some(passed), Some(3))
        );
        assert_eq!(sandbox.runs.load(Ordering::SeqCst), runs);
        let detail = &grading.detail;
        assert_eq!((&detail["test"], &detail["line"]), (&json!(1), &json!(1)));
        assert_eq!(
            (&detail["expected"], &detail["got"]),
            (&json!("4"), &json!("5"))
        );
        assert_eq!(detail["stdin"], json!("2\n"));
    }
}

#[test]
fn right_output_does_not_count_unless_the_program_exits_with_0() {
    for (end, verdict, deterministic) in [
        (exited(1, "").end, Verdict::Incorrect, true),
        (End::TooMuchOutput, Verdict::Incorrect, true),
        (End::Died("abort".to_owned()), Verdict::Incorrect, true),
        (End::OutOfFuel, Verdict::Timeout, true),
        (End::OutOfTime, Verdict::Timeout, false),
        (End::OutOfMemory, Verdict::Memory, true),
        (End::MachineOutOfMemory, Verdict::Memory, false),
    ] {
        let (grader, _) = running(move |stdin| {
            let n: u32 = stdin.trim().parse().unwrap();
            Run {
                end: end.clone(),
                ..exited(0, &(2 * n).to_string())
            }
        });
        let grading = grader.grade_program(&doubling(), "print()", TestMode::All);
        assert_eq!((grading.verdict, grading.passed), (verdict, Some(0)));
        assert_eq!(grading.deterministic, deterministic);
        assert!(grading.detail["reason"].is_string(), "{}", grading.detail);
    }
    let (grader, _) = running(|_| exited(3, "2"));
    let detail = grader
        .grade_program(&doubling(), "print()", TestMode::All)
        .detail;
    assert_eq!(detail["reason"], json!("exit status 3"));
    assert_eq!(detail["stderr"], json!("ValueError: no"));
}

#[test]
fn all_tests_together_have_ten_times_the_fuel_of_one() {
    let limit = Limits::default().fuel * 5 / 2;
    let fuel_of_runs = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&fuel_of_runs);
    let (grader, _) = grader(FakeSandbox::new(move |_, _, limits| {
        seen.lock().unwrap().push(limits.fuel);
        Ok(Run {
            fuel: limits.fuel.min(limit / 10 * 9),
            ..exited(0, "2")
        })
    }));
    let test = ProgramTest {
        stdin: String::new(),
        stdout: "2".to_owned(),
    };
    let task = ProgramTask {
        tests: vec![test; 20],
        time_limit: None,
    };
    let grading = grader.grade_program(&task, "print()", TestMode::All);
    assert_eq!(outcome(&grading), (Verdict::Timeout, Some(12), Some(20)));
    let fuel_of_runs = fuel_of_runs.lock().unwrap();
    assert_eq!(fuel_of_runs.len(), 12);
    assert_eq!((fuel_of_runs[0], fuel_of_runs[11]), (limit, limit / 10));
}

#[test]
fn a_program_whose_tests_take_long_together_gets_no_verdict_in_the_first_pass() {
    let (grader, _) = running(|stdin| Run {
        fuel: 1_500_000_000,
        ..exited(0, &(2 * stdin.trim().parse::<u32>().unwrap()).to_string())
    });
    assert_eq!(
        grader.grade_program_first_pass(&doubling(), "print()", TestMode::All),
        Err(NoVerdictYet::NotInFirstPass)
    );
    let grading = grader.grade_program(&doubling(), "print()", TestMode::All);
    assert_eq!(grading.verdict, Verdict::Correct);
}

#[test]
fn a_completion_without_a_program_or_with_one_that_does_not_parse_is_not_run() {
    let (grader, sandbox) = running(|_| exited(0, "2"));
    let verdict = |completion| {
        let grading = grader.grade_program(&doubling(), completion, TestMode::All);
        (grading.verdict, grading.total)
    };
    assert_eq!(verdict(" \n"), (Verdict::Malformed, None));
    assert_eq!(verdict("no python"), (Verdict::Incorrect, Some(3)));
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 0);
}

#[test]
fn a_task_that_no_program_can_pass_and_a_sandbox_that_fails_are_unavailable() {
    let (grader, sandbox) = running(|_| exited(0, "2"));
    let mut too_long = doubling();
    too_long.tests[1].stdout = "x".repeat(MAX_STREAM_BYTES + 1);
    let mut without = doubling();
    without.tests.clear();
    for (task, says) in [(without, "no tests"), (too_long, "`stdout` of test 1")] {
        let grading = grader.grade_program(&task, "print()", TestMode::All);
        assert_eq!(
            (grading.verdict, grading.retryable),
            (Verdict::Unavailable, false)
        );
        assert!(grading.detail.to_string().contains(says));
    }
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 0);
    let (grader, _) = super::grader(FakeSandbox::new(|_, _, _| {
        Err(Deferred::Failed("the engine is gone".to_owned()).into())
    }));
    let grading = grader.grade_program(&doubling(), "print()", TestMode::All);
    assert_eq!(
        (grading.verdict, grading.retryable),
        (Verdict::Unavailable, true)
    );
    assert_eq!(
        grader.grade_program_first_pass(&doubling(), "print()", TestMode::All),
        Err(NoVerdictYet::NotInFirstPass)
    );
}
