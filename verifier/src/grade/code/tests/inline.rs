//! Tasks that come with requests.

use super::*;

/// A program, or a task's own solution, that needs so much fuel where it is slow.
fn needing(fuel: u64) -> Scripted {
    Scripted::new(move |source, _, limits| {
        if source.contains("slow") && limits.fuel < fuel {
            return Ok(ended(returned(&["2"]), End::OutOfFuel));
        }
        Ok(completed(returned(&["2", "4", "6"])))
    })
}

#[test]
fn a_solution_from_a_request_may_run_as_long_as_one_from_a_data_set() {
    // What task 599 of MBPP+ takes.
    let (own, sandbox) = grader(needing(698_000_000_000));
    let inline = own.for_inline();
    let task = task(Some("slow"));
    // Once its values are there, they serve for both.
    for (grader, runs) in [(&inline, 2), (&own, 3)] {
        let grading = grader.grade(&task, "program", TestMode::All);
        assert_eq!(grading.verdict, Verdict::Correct);
        assert_eq!(sandbox.runs.load(Ordering::SeqCst), runs);
    }
}

#[test]
fn a_solution_that_does_not_end_is_run_once_for_all_samples() {
    let (own, sandbox) = grader(needing(u64::MAX));
    let inline = own.for_inline();
    let task = task(Some("slow"));
    for program in ["one", "two", "three"] {
        for grader in [&inline, &own] {
            let grading = grader.grade(&task, program, TestMode::All);
            assert_eq!(
                (grading.verdict, grading.reward(), grading.retryable),
                (Verdict::Unavailable, None, false)
            );
            let reason = grading.detail["reason"].as_str().unwrap();
            assert!(reason.contains("ran out of fuel"), "{reason}");
        }
    }
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 1);
}

#[test]
fn a_deferred_solution_is_run_again_for_the_next_sample() {
    let (grader, sandbox) = grader(Scripted::new(|_, _, _| {
        Err(Deferred::Failed("busy".to_owned()).into())
    }));
    for runs in 1..3 {
        let grading = grader.grade(&task(Some("solution")), "program", TestMode::All);
        assert!(grading.retryable);
        assert_eq!(sandbox.runs.load(Ordering::SeqCst), runs);
    }
}

#[test]
fn the_values_of_a_solution_from_a_request_are_not_stored_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Arc::new(Shelf::open(folder.path(), 1 << 20).unwrap());
    let sandbox = Arc::new(Scripted::new(|_, _, _| {
        Ok(completed(returned(&["2", "4", "6"])))
    }));
    let shared: Arc<dyn Sandbox> = Arc::<Scripted>::clone(&sandbox);
    // Nothing has room in memory.
    let own = CodeGrader::new(shared, Limits::default(), 0, Some(Arc::clone(&shelf)));
    let inline = own.for_inline();
    let task = task(Some("solution"));
    let mut runs = 0;
    // A run of the program, and one of the solution where its values are not there.
    for (grader, more) in [(&inline, 2), (&inline, 2), (&own, 2), (&own, 1)] {
        let grading = grader.grade(&task, "program", TestMode::All);
        assert_eq!(grading.verdict, Verdict::Correct);
        runs += more;
        assert_eq!(sandbox.runs.load(Ordering::SeqCst), runs);
    }
}
