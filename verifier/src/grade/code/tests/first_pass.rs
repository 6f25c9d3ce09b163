//! The first pass over a program.

use super::*;

#[test]
fn a_long_program_gets_no_verdict_in_the_first_pass() {
    let heavy = "def f(n): heavy";
    for (fuel, expected) in [
        (1_000_000_000, Ok(Verdict::Correct)),
        (5_000_000_000, Err(NoVerdictYet::NotInFirstPass)),
    ] {
        let (grader, _) = grader(needing("heavy", fuel));
        let verdict = grader
            .grade_first_pass(&task(None), heavy, TestMode::All, None)
            .map(|grading| grading.verdict);
        assert_eq!(verdict, expected);
        assert_eq!(
            grader.grade(&task(None), heavy, TestMode::All).verdict,
            Verdict::Correct
        );
    }
    // A program that runs out of its whole fuel limit gets a verdict.
    let (grader, _) = grader(needing("heavy", u64::MAX));
    assert!(
        grader
            .grade_first_pass(&task(None), heavy, TestMode::All, None)
            .is_err()
    );
    assert_eq!(
        grader.grade(&task(None), heavy, TestMode::All).verdict,
        Verdict::Timeout
    );
}

#[test]
fn a_task_with_a_long_canonical_solution_gets_no_first_pass() {
    let (grader, sandbox) = grader(FakeSandbox::new(|_, _, _| {
        Ok(Run {
            fuel: 3_000_000_000,
            ..completed(returned(&["2", "4", "6"]))
        })
    }));
    let task = task(Some("solution"));
    let right = grader.grade(&task, "program", TestMode::UntilFailure);
    assert_eq!(right.verdict, Verdict::Correct);
    let runs = sandbox.runs.load(Ordering::SeqCst);
    assert_eq!(
        grader
            .grade_first_pass(&task, "another", TestMode::UntilFailure, None)
            .unwrap_err(),
        NoVerdictYet::NotInFirstPass
    );
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), runs);
}
