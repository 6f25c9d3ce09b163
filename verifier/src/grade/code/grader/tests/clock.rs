//! Runs that end by a clock or for lack of the machine's memory, in a sandbox where this may happen.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn a_completion_that_stops_the_parser_is_no_program() {
    let (grader, sandbox) = grader(FakeSandbox::doubling());
    for (text, verdict) in [("long to read", Timeout), ("large to read", Memory)] {
        let completion =
            format!("```python\n# {text}\n```\n```python\ndef f(n): return 2 * n\n```");
        let grading = grader.judge(&task(None), &completion, TestMode::UntilFailure);
        let found = (grading.verdict, grading.deterministic, grading.reward());
        assert_eq!(found, (verdict, false, Some(0.0)));
    }
    assert_eq!(sandbox.runs(), 0);
}

#[test]
fn a_canonical_solution_that_a_clock_ended_is_run_again_a_program_is_not() {
    for (word, verdict, expected_runs) in [("solution", Correct, 3), ("program", Timeout, 2)] {
        let ends = AtomicUsize::new(0);
        let (grader, sandbox) = grader(FakeSandbox::new(move |source, _, _| {
            let first = source.contains(word) && ends.fetch_add(1, Ordering::SeqCst) == 0;
            Ok(match first {
                true => ended(Vec::new(), End::OutOfTime),
                false => completed(returned(&["2", "4", "6"])),
            })
        }));
        let grading = grader.judge(&task(Some("solution")), "program", TestMode::UntilFailure);
        assert_eq!(grading.verdict, verdict);
        assert_eq!(grading.deterministic, verdict == Correct);
        assert_eq!(sandbox.runs(), expected_runs);
    }
}
