//! Inline tasks.

use super::*;

#[test]
fn an_inline_tasks_canonical_solution_has_four_times_a_programs_fuel() {
    // The last is the fuel of task 599 of MBPP+.
    for (fuel, inline) in [
        (80_000_000_000, Correct),
        (80_000_000_001, Unavailable),
        (698_000_000_000, Unavailable),
    ] {
        let (grader_for_data_sets, _) = grader(needing("slow", fuel));
        let verdict = |grader: &CodeGrader| {
            let task = task(Some("slow"));
            grader.judge(&task, "program", TestMode::All).verdict
        };
        assert_eq!(verdict(&grader_for_data_sets.for_inline()), inline);
        // The failure of the inline task is not that of the data set's.
        assert_eq!(verdict(&grader_for_data_sets), Correct);
    }
}

#[test]
fn a_canonical_solution_that_does_not_end_is_run_once_for_all_samples() {
    let (grader_for_data_sets, sandbox) = grader(needing("slow", u64::MAX));
    let inline = grader_for_data_sets.for_inline();
    let task = task(Some("slow"));
    for program in ["one", "two", "three"] {
        for grader in [&inline, &grader_for_data_sets] {
            let grading = grader.judge(&task, program, TestMode::All);
            assert_bad_task(&grading, "ran out of fuel");
        }
    }
    // Once as an inline task, and once as a data set's.
    assert_eq!(sandbox.runs(), 2);
}

#[test]
fn a_deferred_canonical_solution_is_run_again_for_the_next_sample() {
    let (grader, sandbox) = grader(FakeSandbox::new(|_, _, _| {
        Err(Deferred::Failed("busy".to_owned()).into())
    }));
    for expected_runs in 1..3 {
        let grading = grader.judge(&task(Some("solution")), "program", TestMode::All);
        assert!(grading.retryable);
        assert_eq!(sandbox.runs(), expected_runs);
    }
}

#[test]
fn the_expected_values_of_an_inline_task_are_not_stored_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    // The memory cache holds nothing.
    let (grader_for_data_sets, sandbox) = grader_with(needing("solution", 0), 0, store(&folder));
    let inline = grader_for_data_sets.for_inline();
    let task = task(Some("solution"));
    let mut all = 0;
    // One run of the program, and one of the canonical solution if its values are not cached.
    for (grader, more) in [
        (&inline, 2),
        (&inline, 2),
        (&grader_for_data_sets, 2),
        (&grader_for_data_sets, 1),
    ] {
        let grading = grader.judge(&task, "program", TestMode::All);
        assert_eq!(grading.verdict, Correct);
        all += more;
        assert_eq!(sandbox.runs(), all);
    }
}
