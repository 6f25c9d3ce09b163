//! Runs of canonical solutions that are separate from the judging.

use std::sync::mpsc;

use super::*;

#[test]
fn a_first_pass_runs_no_canonical_solution_and_returns_the_key_of_its_result() {
    let (grader, sandbox) = grader(FakeSandbox::doubling());
    let task = task(Some("right"));
    let needs =
        |grader: &CodeGrader| grader.grade_first_pass(&task, "right too", TestMode::All, None);
    let Err(NoVerdictYet::CanonicalResult(key)) = needs(&grader) else {
        panic!("a verdict without expected values");
    };
    assert_eq!(
        grader.grade_with(&task, "right too", TestMode::All, None),
        Err(key)
    );
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 0);
    let canonical_result = grader.try_canonical_result(&task, true).unwrap();
    assert!(canonical_result.failure().is_none());
    assert_eq!(needs(&grader).unwrap().verdict, Verdict::Correct);
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 2);
}

#[test]
fn a_task_whose_solution_fails_the_tasks_own_test_code_is_unavailable() {
    for tests in [Vec::new(), task(None).tests] {
        let (grader, sandbox) = grader(FakeSandbox::doubling());
        let code_task = |canonical: &str| CodeTask {
            tests: tests.clone(),
            asserts: vec!["assert f(1)".to_owned()],
            ..task(Some(canonical))
        };
        let graded = |canonical: &str, program: &str| {
            grader.grade(&code_task(canonical), program, TestMode::All)
        };
        for program in ["right", "wrong", "right"] {
            let grading = graded("another function", program);
            assert_eq!(
                (grading.verdict, grading.retryable),
                (Verdict::Unavailable, false)
            );
            let reason = grading.detail["reason"].as_str().unwrap();
            assert!(
                reason.contains("own test code here (`assert f(1)`: AssertionError: )"),
                "{reason}"
            );
        }
        // The test code is read, and the solution runs once on each kind of test.
        let runs = 2 + usize::from(!tests.is_empty());
        assert_eq!(sandbox.runs.load(Ordering::SeqCst), runs);
        for (program, verdict) in [("right", Verdict::Correct), ("wrong", Verdict::Incorrect)] {
            assert_eq!(graded("right", program).verdict, verdict);
        }
        let invalid = graded("another function", "no python");
        assert_eq!(invalid.verdict, Verdict::Incorrect);
    }
}

#[test]
fn a_canonical_result_that_is_passed_in_need_not_be_cached() {
    let sandbox = Arc::new(FakeSandbox::doubling());
    let shared: Arc<dyn Sandbox> = Arc::<FakeSandbox>::clone(&sandbox);
    // The memory cache holds nothing.
    let grader = CodeGrader::new(shared, Limits::default(), 0, None);
    let task = task(Some("right"));
    let canonical_result = grader.try_canonical_result(&task, true).unwrap();
    for _ in 0..3 {
        let grading = grader
            .grade_first_pass(&task, "right too", TestMode::All, Some(&canonical_result))
            .unwrap();
        assert_eq!(grading.verdict, Verdict::Correct);
    }
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 4);
}

#[test]
fn a_long_canonical_solution_is_given_up_only_in_a_first_pass() {
    let (grader, sandbox) = grader(needing("solution", 698_000_000_000));
    let task = task(Some("solution"));
    assert_eq!(
        grader.try_canonical_result(&task, true).err(),
        Some(NoCanonicalResult::NotInFirstPass)
    );
    assert!(!grader.has_canonical_result(&task));
    assert!(grader.try_canonical_result(&task, false).is_ok());
    assert!(grader.has_canonical_result(&task));
    assert!(grader.try_canonical_result(&task, true).is_ok());
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 2);
}

#[test]
fn graders_that_share_a_folder_run_a_canonical_solution_once() {
    let folder = tempfile::tempdir().unwrap();
    let (started, starts) = mpsc::channel();
    let (release, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let slow = FakeSandbox::new(move |_, _, _| {
        started.send(()).unwrap();
        let _ = held.lock().unwrap().recv();
        Ok(completed(returned(&["2", "4", "6"])))
    });
    // As in two processes: each has its own memory cache.
    let grader_over = |sandbox: FakeSandbox| {
        let sandbox = Arc::new(sandbox);
        let shared: Arc<dyn Sandbox> = Arc::<FakeSandbox>::clone(&sandbox);
        let store = Arc::new(ExpectedValueStore::open(folder.path(), 1 << 20).unwrap());
        let grader = CodeGrader::new(shared, Limits::default(), 1 << 20, Some(store));
        (grader, sandbox)
    };
    let (one, _) = grader_over(slow);
    let (other, other_runs) = grader_over(needing("solution", 0));
    let task = task(Some("solution"));
    std::thread::scope(|scope| {
        let computed = scope.spawn(|| one.try_canonical_result(&task, false).is_ok());
        starts.recv().unwrap();
        assert_eq!(
            other.try_canonical_result(&task, false).err(),
            Some(NoCanonicalResult::Elsewhere)
        );
        assert_eq!(
            one.try_canonical_result(&task, false).err(),
            Some(NoCanonicalResult::Elsewhere)
        );
        // An inline task does not use the folder.
        assert!(
            other
                .for_inline()
                .try_canonical_result(&self::task(Some("brought")), false)
                .is_ok()
        );
        drop(release);
        assert!(computed.join().unwrap());
    });
    assert!(other.try_canonical_result(&task, false).is_ok());
    assert_eq!(other_runs.runs.load(Ordering::SeqCst), 1);
}
