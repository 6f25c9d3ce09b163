//! Tasks whose own fault no program pays for.

use super::*;

fn with_asserts(asserts: &[&str]) -> CodeTask {
    CodeTask {
        tests: Vec::new(),
        asserts: asserts.iter().map(|text| (*text).to_owned()).collect(),
        ..task(None)
    }
}

/// A sandbox that finds no tests defined, and whose tests raise where they divide by 0 and pass where they do not.
fn dividing() -> Scripted {
    Scripted::new(|source, calls, _| {
        let finds = source.starts_with("\"\"\"Finds the tests");
        let answer = |call: &String| {
            if finds {
                return Call::Returned(r#"["",[]]"#.to_owned());
            }
            if !call.contains("/0") {
                return Call::Returned("null".to_owned());
            }
            Call::Raised {
                kind: "ZeroDivisionError".to_owned(),
                message: "division by zero".to_owned(),
            }
        };
        Ok(completed(calls.iter().map(answer).collect()))
    })
}

#[test]
fn a_test_that_raises_without_asking_the_program_is_the_tasks_fault() {
    let (grader, _) = grader(dividing());
    for (asserts, verdict) in [
        (&["1/0"][..], Verdict::Unavailable),
        (&["assert f(1) == 2", "1/0"], Verdict::Unavailable),
        (&["assert f(1)/0"], Verdict::Incorrect),
        (&["x = f(1)", "x/0"], Verdict::Incorrect),
        (&["assert f(1) == 2"], Verdict::Correct),
    ] {
        for extent in [Extent::All, Extent::UntilFailure] {
            let grading = grader.grade(&with_asserts(asserts), "program", extent);
            assert_eq!(
                (grading.verdict, grading.retryable),
                (verdict, false),
                "{asserts:?}"
            );
            if verdict == Verdict::Unavailable {
                let reason = grading.detail["reason"].as_str().unwrap();
                assert!(
                    reason.contains("`1/0` raises ZeroDivisionError")
                        && reason.contains("correct the task"),
                    "{reason}"
                );
            }
        }
    }
}

#[test]
fn asserts_that_are_no_python_are_found_whatever_the_program_is() {
    let (grader, _) = grader(Scripted::new(|source, calls, _| {
        let raised = Call::Raised {
            kind: "SyntaxError".to_owned(),
            message: "invalid syntax, line 1".to_owned(),
        };
        let finds = source.starts_with("\"\"\"Finds the tests");
        Ok(completed(if finds {
            vec![raised]
        } else {
            vec![Call::Returned("0".to_owned()); calls.len()]
        }))
    }));
    let broken = with_asserts(&["assert f(1) =="]);
    // With tests before, of which the first fails, judging would end before the asserts.
    let behind_tests = CodeTask {
        tests: task(None).tests,
        ..broken.clone()
    };
    for task in [broken, behind_tests] {
        for extent in [Extent::All, Extent::UntilFailure] {
            let grading = grader.grade(&task, "program", extent);
            assert_eq!(
                (grading.verdict, grading.reward(), grading.retryable),
                (Verdict::Unavailable, None, false)
            );
            let reason = grading.detail["reason"].as_str().unwrap();
            assert!(reason.contains("SyntaxError: invalid syntax"), "{reason}");
        }
    }
}

#[test]
fn an_entry_point_that_nothing_can_be_called_is_the_tasks_fault() {
    let (grader, sandbox) = grader(Scripted::doubling());
    let task = CodeTask {
        entry_point: "class".to_owned(),
        ..task(None)
    };
    let grading = grader.grade(&task, "right", Extent::All);
    assert_eq!(
        (grading.verdict, grading.retryable),
        (Verdict::Unavailable, false)
    );
    assert_eq!(sandbox.runs.load(Ordering::SeqCst), 0);
}
