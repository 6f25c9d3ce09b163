//! Runs that end by a clock or for lack of the machine's memory, in a sandbox where this may happen.

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
    assert_eq!(runs(&sandbox), 0);
}

#[test]
fn a_canonical_solution_that_a_clock_ended_is_run_again_a_program_is_not() {
    for (word, verdict, expected_runs) in [("solution", Correct, 3), ("program", Timeout, 2)] {
        let ends = std::sync::atomic::AtomicUsize::new(0);
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
        assert_eq!(runs(&sandbox), expected_runs);
    }
}

#[test]
fn runs_after_one_that_ran_out_of_time_have_an_eighth_of_the_fuel() {
    let fuel_limits = Arc::new(Mutex::new(Vec::new()));
    let recorder = Arc::clone(&fuel_limits);
    let (grader, _) = grader(FakeSandbox::new(move |_, _, limits| {
        recorder.lock().unwrap().push(limits.fuel);
        Ok(ended(Vec::new(), End::OutOfTime))
    }));
    let _ = grader.judge(&task(None), "def f(n): ...", TestMode::All);
    let all = Limits::default().fuel * 5 / 2;
    assert_eq!(*fuel_limits.lock().unwrap(), [all, all / 8, all / 8]);
}
