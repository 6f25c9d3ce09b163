//! The first pass over a program.

use super::*;

#[test]
fn a_long_program_gets_no_verdict_in_the_first_pass() {
    let long = Err(Pending::Deferred);
    for (fuel, first, whole) in [
        (1_000_000_000, Ok(Correct), Correct),
        (5_000_000_000, long, Correct),
        // It runs out of its whole fuel.
        (u64::MAX, long, Timeout),
    ] {
        let (grader, _) = grader(needing("heavy", fuel));
        let (task, heavy, mode) = (task(None), "def f(n): heavy", TestMode::All);
        let graded = in_first_pass(&grader, &task, heavy, mode);
        assert_eq!(graded.map(|grading| grading.verdict), first);
        assert_eq!(grader.judge(&task, heavy, mode).verdict, whole);
    }
}

#[test]
fn a_task_with_a_long_canonical_solution_gets_no_first_pass() {
    let (grader, sandbox) = grader(FakeSandbox::new(|_, _, _| {
        Ok(Run {
            fuel: 3_000_000_000,
            ..completed(returned(&["2", "4", "6"]))
        })
    }));
    let (task, mode) = (task(Some("solution")), TestMode::UntilFailure);
    assert_eq!(grader.judge(&task, "program", mode).verdict, Correct);
    let before = sandbox.runs();
    let graded = in_first_pass(&grader, &task, "another", mode);
    assert_eq!(graded, Err(Pending::Deferred));
    assert_eq!(sandbox.runs(), before);
}
