//! What a task's own solution returns, as far as it is made apart from the judging.

use std::sync::mpsc;

use super::*;

/// A solution that needs so much fuel.
fn solution(fuel: u64) -> Scripted {
    Scripted::new(move |_, _, limits| {
        if limits.fuel < fuel {
            return Ok(ended(Vec::new(), End::OutOfFuel));
        }
        Ok(completed(returned(&["2", "4", "6"])))
    })
}

#[test]
fn a_first_pass_runs_no_solution_and_names_the_reference_that_it_needs() {
    let (grader, sandbox) = grader(Scripted::doubling());
    let task = task(Some("right"));
    let needs =
        |grader: &CodeGrader| grader.grade_first_pass(&task, "right too", TestMode::All, None);
    let Err(Unfinished::Reference(key)) = needs(&grader) else {
        panic!("a verdict without a reference");
    };
    assert_eq!(
        grader.grade_with(&task, "right too", TestMode::All, None),
        Err(key)
    );
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 0);
    let reference = grader.try_reference(&task, true).unwrap();
    assert!(reference.fault().is_none());
    assert_eq!(needs(&grader).unwrap().verdict, Verdict::Correct);
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 2);
}

#[test]
fn a_reference_that_is_given_need_not_be_in_memory() {
    let sandbox = Arc::new(Scripted::doubling());
    let shared: Arc<dyn Sandbox> = Arc::<Scripted>::clone(&sandbox);
    // Nothing has room in memory.
    let grader = CodeGrader::new(shared, Limits::default(), 0, None);
    let task = task(Some("right"));
    let reference = grader.try_reference(&task, true).unwrap();
    for _ in 0..3 {
        let grading = grader
            .grade_first_pass(&task, "right too", TestMode::All, Some(&reference))
            .unwrap();
        assert_eq!(grading.verdict, Verdict::Correct);
    }
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 4);
}

#[test]
fn a_solution_that_takes_long_is_given_up_only_where_that_was_asked_for() {
    let (grader, sandbox) = grader(solution(698_000_000_000));
    let task = task(Some("solution"));
    assert_eq!(grader.try_reference(&task, true).err(), Some(Absent::Long));
    assert!(!grader.knows_reference(&task));
    assert!(grader.try_reference(&task, false).is_ok());
    assert!(grader.knows_reference(&task));
    assert!(grader.try_reference(&task, true).is_ok());
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 2);
}

#[test]
fn a_solution_is_run_by_one_grader_of_those_that_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (started, starts) = mpsc::channel();
    let (release, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let slow = Scripted::new(move |_, _, _| {
        started.send(()).unwrap();
        let _ = held.lock().unwrap().recv();
        Ok(completed(returned(&["2", "4", "6"])))
    });
    // As two processes have it: each with a memory of its own.
    let of = |sandbox: Scripted| {
        let sandbox = Arc::new(sandbox);
        let shared: Arc<dyn Sandbox> = Arc::<Scripted>::clone(&sandbox);
        let shelf = Arc::new(Shelf::open(folder.path(), 1 << 20).unwrap());
        let grader = CodeGrader::new(shared, Limits::default(), 1 << 20, Some(shelf));
        (grader, sandbox)
    };
    let (one, _) = of(slow);
    let (other, other_runs) = of(solution(0));
    let task = task(Some("solution"));
    std::thread::scope(|scope| {
        let made = scope.spawn(|| one.try_reference(&task, false).is_ok());
        starts.recv().unwrap();
        assert_eq!(
            other.try_reference(&task, false).err(),
            Some(Absent::Elsewhere)
        );
        assert_eq!(
            one.try_reference(&task, false).err(),
            Some(Absent::Elsewhere)
        );
        // A task that came with a request has nothing to do with the folder.
        assert!(
            other
                .for_inline()
                .try_reference(&self::task(Some("brought")), false)
                .is_ok()
        );
        drop(release);
        assert!(made.join().unwrap());
    });
    assert!(other.try_reference(&task, false).is_ok());
    assert_eq!(other_runs.runs.load(Ordering::SeqCst), 1);
}
