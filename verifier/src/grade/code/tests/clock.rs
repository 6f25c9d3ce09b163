//! Runs that a clock, or the machine's lack of memory, ends, in a sandbox where this may happen.

use super::*;

#[test]
fn a_verdict_that_a_clock_influenced_is_not_deterministic() {
    // Even if a value decided the verdict, the number of passed tests depends on the clock.
    for (calls, verdict) in [
        (&["2"][..], Verdict::Timeout),
        (&["3"][..], Verdict::Incorrect),
    ] {
        let grading = grading(ended(returned(calls), End::OutOfTime));
        assert_eq!(
            (grading.verdict, grading.deterministic, grading.reward()),
            (verdict, false, Some(0.0))
        );
    }
    assert!(grading(ended(returned(&["2"]), End::OutOfFuel)).deterministic);
    let largest = grading(ended(returned(&["2"]), End::MachineOutOfMemory));
    assert_eq!(
        (largest.verdict, largest.deterministic),
        (Verdict::Memory, false)
    );
}

#[test]
fn a_completion_whose_parsing_is_stopped_is_no_program_whatever_it_contains() {
    let (grader, sandbox) = grader(FakeSandbox::doubling());
    for (text, verdict) in [
        ("long to read", Verdict::Timeout),
        ("large to read", Verdict::Memory),
    ] {
        let completion =
            format!("```python\n# {text}\n```\n```python\ndef f(n): return 2 * n\n```");
        let grading = grader.grade(&task(None), &completion, TestMode::UntilFailure);
        assert_eq!(
            (grading.verdict, grading.deterministic, grading.reward()),
            (verdict, false, Some(0.0))
        );
    }
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 0);
}

#[test]
fn a_program_that_a_clock_ended_is_not_run_again() {
    let (grader, sandbox) = grader(FakeSandbox::new(|_, _, _| {
        Ok(ended(returned(&["2"]), End::OutOfTime))
    }));
    let grading = grader.grade(&task(None), "def f(n): ...", TestMode::UntilFailure);
    assert_eq!(
        (grading.verdict, grading.deterministic, grading.reward()),
        (Verdict::Timeout, false, Some(0.0))
    );
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 1);
}

#[test]
fn a_canonical_solution_that_a_clock_ended_is_run_again() {
    let ends = std::sync::atomic::AtomicUsize::new(0);
    let (grader, _) = grader(FakeSandbox::new(move |source, _, _| {
        let first = source.contains("solution") && ends.fetch_add(1, Ordering::SeqCst) == 0;
        Ok(if first {
            ended(Vec::new(), End::OutOfTime)
        } else {
            completed(returned(&["2", "4", "6"]))
        })
    }));
    let grading = grader.grade(&task(Some("solution")), "program", TestMode::UntilFailure);
    assert_eq!(grading.verdict, Verdict::Correct);
}

#[test]
fn runs_after_one_that_ran_out_of_time_have_an_eighth_of_the_fuel() {
    let fuel_limits = Arc::new(Mutex::new(Vec::new()));
    let recorder = Arc::clone(&fuel_limits);
    let (grader, _) = grader(FakeSandbox::new(move |_, _, limits| {
        recorder.lock().unwrap().push(limits.fuel);
        Ok(ended(Vec::new(), End::OutOfTime))
    }));
    let _ = grader.grade(&task(None), "def f(n): ...", TestMode::All);
    let all = Limits::default().fuel * 5 / 2;
    assert_eq!(*fuel_limits.lock().unwrap(), [all, all / 8, all / 8]);
}
