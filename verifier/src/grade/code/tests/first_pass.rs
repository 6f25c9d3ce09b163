//! The first try at a program.

use super::*;

/// A program, or its task's own solution, that needs so much fuel.
fn needing(fuel: u64) -> Scripted {
    Scripted::new(move |source, _, limits| {
        if source.contains("heavy") && limits.fuel < fuel {
            return Ok(ended(returned(&["2"]), End::OutOfFuel));
        }
        Ok(completed(returned(&["2", "4", "6"])))
    })
}

#[test]
fn a_program_that_is_not_over_soon_has_no_verdict_in_the_first_pass() {
    let heavy = "def f(n): heavy";
    for (fuel, briefly) in [
        (1_000_000_000, Ok(Verdict::Correct)),
        (5_000_000_000, Err(Unfinished::Long)),
    ] {
        let (grader, _) = grader(needing(fuel));
        let verdict = grader
            .grade_first_pass(&task(None), heavy, TestMode::All, None)
            .map(|grading| grading.verdict);
        assert_eq!(verdict, briefly);
        assert_eq!(
            grader.grade(&task(None), heavy, TestMode::All).verdict,
            Verdict::Correct
        );
    }
    // What runs out of all fuel that it may ever have has a verdict.
    let (grader, _) = grader(needing(u64::MAX));
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
fn a_task_whose_own_solution_takes_long_gets_no_first_pass() {
    let (grader, sandbox) = grader(Scripted::new(|_, _, _| {
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
        Unfinished::Long
    );
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), runs);
}
