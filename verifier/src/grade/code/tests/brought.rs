//! Tasks that come with requests.

use super::*;

#[test]
fn a_solution_that_is_brought_may_not_run_as_long_as_a_data_sets() {
    let needed = 11 * Limits::default().fuel;
    let (own, _) = grader(Scripted::new(move |source, _, limits| {
        if source.contains("slow") && limits.fuel < needed {
            return Ok(ended(returned(&["2"]), End::OutOfFuel));
        }
        Ok(completed(returned(&["2", "4", "6"])))
    }));
    let brought = own.for_brought();
    let task = task(Some("slow"));
    let grading = brought.grade(&task, "program", Extent::All);
    assert_eq!(
        (grading.verdict, grading.reward(), grading.retryable),
        (Verdict::Unavailable, None, false)
    );
    let reason = grading.detail["reason"].as_str().unwrap();
    assert!(reason.contains("ran out of fuel"), "{reason}");
    // Once its values are there, they serve for both.
    for grader in [&own, &brought] {
        let grading = grader.grade(&task, "program", Extent::All);
        assert_eq!(grading.verdict, Verdict::Correct);
    }
}

#[test]
fn what_a_solution_that_is_brought_returns_is_not_kept_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::open(&folder.path().join("cache.redb")).unwrap());
    let sandbox = Arc::new(Scripted::new(|_, _, _| {
        Ok(completed(returned(&["2", "4", "6"])))
    }));
    let shared: Arc<dyn Sandbox> = Arc::<Scripted>::clone(&sandbox);
    // Nothing has room in memory.
    let own = CodeGrader::new(shared, Limits::default(), 0, Some(Arc::clone(&disk)));
    let brought = own.for_brought();
    let task = task(Some("solution"));
    let mut runs = 0;
    // A run of the program, and one of the solution where its values are not there.
    for (grader, more) in [(&brought, 2), (&brought, 2), (&own, 2), (&own, 1)] {
        let grading = grader.grade(&task, "program", Extent::All);
        assert_eq!(grading.verdict, Verdict::Correct);
        runs += more;
        assert_eq!(sandbox.runs.load(Ordering::SeqCst), runs);
        disk.flush();
    }
}
