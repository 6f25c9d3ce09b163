//! Errors in tasks. No program gets a wrong verdict because of them.

use super::*;

/// A sandbox without tests in test code. A test raises if it divides by 0 and passes otherwise. A run calls the program if `f(` stands in a test, not as a method.
fn dividing() -> FakeSandbox {
    FakeSandbox::new(|source, calls, _| {
        if finds_tests(source) {
            return Ok(no_tests(calls));
        }
        let answer = |call: &String| match call.contains("/0") {
            false => Call::Returned("null".to_owned()),
            true => raised("ZeroDivisionError", "division by zero"),
        };
        let called = calls
            .iter()
            .any(|call| call.replace(".f(", "").contains("f("));
        let end = match called {
            true => End::Completed,
            false => End::Uncalled,
        };
        Ok(ended(calls.iter().map(answer).collect(), end))
    })
}

#[test]
fn a_test_that_never_calls_the_program_makes_a_task_unavailable() {
    let (grader, _) = grader(dividing());
    let raises = "`1/0` raises ZeroDivisionError";
    for (asserts, verdict, says) in [
        (&["1/0"][..], Unavailable, raises),
        (&["assert f(1) == 2", "1/0"], Unavailable, raises),
        (&["pass", "1/0"], Unavailable, raises),
        (&["pass"], Unavailable, "never calls `f`"),
        (&["x = A().f(1)"], Unavailable, "`Class().f`"),
        (&["assert f(1)/0"], Incorrect, ""),
        (&["x = f(1)", "x/0"], Incorrect, ""),
        (&["assert f(1) == 2"], Correct, ""),
        (&["pass", "assert f(1)"], Correct, ""),
    ] {
        for test_mode in [TestMode::All, TestMode::UntilFailure] {
            let grading = grader.judge(&with_asserts(asserts), "program", test_mode);
            match verdict {
                Unavailable => assert_bad_task(&grading, says),
                _ => assert_eq!(grading.verdict, verdict, "{asserts:?}"),
            }
        }
    }
}

#[test]
fn a_run_after_a_stop_repeats_the_earlier_tests_that_assign_names() {
    let (grader, sandbox) = grader(FakeSandbox::new(move |source, calls, _| {
        if finds_tests(source) {
            return Ok(no_tests(calls));
        }
        let answered = calls.iter().take_while(|call| !call.contains("stop"));
        let answers = answered
            .map(|_| Call::Returned("null".to_owned()))
            .collect();
        let stops = calls.iter().any(|call| call.contains("stop"));
        let end = match stops {
            true => End::OutOfFuel,
            false => End::Completed,
        };
        Ok(ended(answers, end))
    }));
    let texts = [
        "x = f(1)",
        "assert f(2)",
        "y = stop(f(3))",
        "assert x",
        "z = f(4)",
        "assert stop(f(5))",
        "assert z",
    ];
    let grading = grader.judge(&with_asserts(&texts), "program", TestMode::All);
    assert_eq!(outcome(&grading), (Timeout, 5, 7));
    let expected = [
        &texts[..],
        &[
            "x = f(1)",
            "assert x",
            "z = f(4)",
            "assert stop(f(5))",
            "assert z",
        ],
        &["x = f(1)", "z = f(4)", "assert z"],
    ];
    // The first run parsed the texts.
    assert_eq!(sandbox.calls()[1..], expected);
}

#[test]
fn asserts_that_are_not_python_make_the_task_unavailable() {
    let (grader, _) = grader(FakeSandbox::new(|source, calls, _| {
        Ok(completed(match finds_tests(source) {
            true => vec![raised("SyntaxError", "invalid syntax, line 1")],
            false => vec![Call::Returned("0".to_owned()); calls.len()],
        }))
    }));
    let broken = with_asserts(&["assert f(1) =="]);
    // With tests before the asserts, judging would end at the first failed test, before the asserts.
    let after_tests = CodeTask {
        tests: task(None).tests,
        ..broken.clone()
    };
    for task in [broken, after_tests] {
        for test_mode in [TestMode::All, TestMode::UntilFailure] {
            let grading = grader.judge(&task, "program", test_mode);
            assert_bad_task(&grading, "SyntaxError: invalid syntax");
        }
    }
}

#[test]
fn a_task_without_tests_or_a_valid_entry_point_is_unavailable() {
    let (grader, sandbox) = grader(FakeSandbox::doubling());
    let keyword = CodeTask {
        entry_point: "class".to_owned(),
        ..task(None)
    };
    for (task, says) in [
        (with_asserts(&[]), "neither tests"),
        (keyword, "entry point"),
    ] {
        assert_bad_task(&grader.judge(&task, "right", TestMode::All), says);
    }
    assert_eq!(sandbox.runs(), 0);
}
