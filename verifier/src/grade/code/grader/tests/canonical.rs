//! Runs of canonical solutions that are separate from the judging.

use std::sync::{Mutex, mpsc};

use super::*;
use crate::cache::KeyWriter;
use crate::grade::code::NoCanonicalResult;

#[test]
fn a_first_pass_returns_the_key_of_a_missing_canonical_result() {
    let (grader, sandbox) = grader(FakeSandbox::doubling());
    let first_pass = grader.attempt(true, None);
    let task = task(Some("right"));
    let needs = |grader: &CodeGrader| {
        let mut state = SampleState::default();
        grader.grade(&task, "right too", TestMode::All, &mut state)
    };
    let Err(Pending::CanonicalResult(key)) = needs(&first_pass) else {
        panic!("a verdict without expected values");
    };
    assert_eq!(needs(&grader), Err(Pending::CanonicalResult(key)));
    assert_eq!(sandbox.runs(), 0);
    let canonical_result = first_pass.try_canonical_result(&task).unwrap();
    assert!(canonical_result.failure().is_none());
    assert_eq!(needs(&first_pass).unwrap().verdict, Correct);
    assert_eq!(sandbox.runs(), 2);
}

/// Expected values are cached under these keys. Whoever changes one has all canonical solutions run again.
#[test]
fn the_keys_of_results_are_those_of_earlier_versions() {
    let (grader, _) = grader(FakeSandbox::doubling());
    let limits = Limits::default();
    let calls = KeyWriter::new()
        .field("expected-1")
        .field("scripted")
        .field("0".repeat(64))
        .field(limits.memory.to_le_bytes())
        .field((limits.value as u64).to_le_bytes())
        .field("right")
        .field("f")
        .fields(["[1]", "[2]", "[3]"].iter());
    let test_code = |key: KeyWriter| {
        let imports: [&str; 0] = [];
        let key = key.field(VERSION).fields(imports.iter());
        key.fields(["assert f(1)"].iter()).finish()
    };
    let task = task(Some("right"));
    let with_asserts = CodeTask {
        asserts: vec!["assert f(1)".to_owned()],
        ..task.clone()
    };
    let inline = grader.for_inline();
    for (grader, calls) in [
        (&inline, calls.clone().field("inline")),
        (&grader, calls.clone()),
    ] {
        assert_eq!(grader.canonical_key(&with_asserts), test_code(calls));
    }
    assert_eq!(grader.canonical_key(&task), calls.finish());
}

#[test]
fn a_task_whose_solution_fails_the_tasks_own_test_code_is_unavailable() {
    for tests in [Vec::new(), task(None).tests] {
        let (grader, sandbox) = grader(FakeSandbox::doubling());
        let graded = |canonical: &str, program: &str| {
            let task = CodeTask {
                tests: tests.clone(),
                canonical: Some(canonical.to_owned()),
                ..with_asserts(&["assert f(1)"])
            };
            grader.judge(&task, program, TestMode::All)
        };
        let says = "own test code here (`assert f(1)`: AssertionError: )";
        for program in ["right", "wrong", "right"] {
            assert_bad_task(&graded("another function", program), says);
        }
        // The test code is read, and the solution runs once on each kind of test.
        assert_eq!(sandbox.runs(), 2 + usize::from(!tests.is_empty()));
        for (canonical, program, verdict) in [
            ("right", "right", Correct),
            ("right", "wrong", Incorrect),
            ("another function", "no python", Incorrect),
        ] {
            assert_eq!(graded(canonical, program).verdict, verdict);
        }
    }
}

#[test]
fn a_canonical_result_that_is_passed_in_need_not_be_cached() {
    // The memory cache holds nothing.
    let (grader, sandbox) = grader_with(FakeSandbox::doubling(), 0, None);
    let (grader, task) = (grader.attempt(true, None), task(Some("right")));
    let mut state = SampleState {
        canonical_result: grader.try_canonical_result(&task).ok(),
        ..SampleState::default()
    };
    for _ in 0..3 {
        let graded = grader.grade(&task, "right too", TestMode::All, &mut state);
        assert_eq!(graded.unwrap().verdict, Correct);
    }
    assert_eq!(sandbox.runs(), 4);
}

#[test]
fn a_long_canonical_solution_is_deferred_only_in_a_first_pass() {
    let (grader, sandbox) = grader(needing("solution", 698_000_000_000));
    let (first_pass, task) = (grader.attempt(true, None), task(Some("solution")));
    let deferred = first_pass.try_canonical_result(&task);
    assert_eq!(deferred, Err(NoCanonicalResult::Deferred));
    assert!(!grader.has_canonical_result(&task));
    assert!(grader.try_canonical_result(&task).is_ok());
    assert!(grader.has_canonical_result(&task));
    assert!(first_pass.try_canonical_result(&task).is_ok());
    assert_eq!(sandbox.runs(), 2);
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
    let (one, _) = grader_with(slow, 1 << 20, store(&folder));
    let (other, other_runs) = grader_with(needing("solution", 0), 1 << 20, store(&folder));
    let task = task(Some("solution"));
    std::thread::scope(|scope| {
        let computed = scope.spawn(|| one.try_canonical_result(&task).is_ok());
        starts.recv().unwrap();
        for grader in [&other, &one] {
            let result = grader.try_canonical_result(&task);
            assert_eq!(result, Err(NoCanonicalResult::InProgress));
        }
        // An inline task does not use the folder.
        let (inline, brought) = (other.for_inline(), self::task(Some("brought")));
        assert!(inline.try_canonical_result(&brought).is_ok());
        drop(release);
        assert!(computed.join().unwrap());
    });
    assert!(other.try_canonical_result(&task).is_ok());
    assert_eq!(other_runs.runs(), 1);
}
