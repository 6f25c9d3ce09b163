//! The limit of fuel.

use std::time::Duration;

use super::*;

#[test]
fn fuel_depends_on_the_canonical_solution_and_the_time_limit() {
    const G: u64 = 1_000_000_000;
    // The sandbox, the fuel of the canonical solution, and the time limit in seconds.
    for (backend, solution, seconds, limit) in [
        ("wasm", None, None, 50 * G),
        ("wasm", Some(G), None, 20 * G),
        ("wasm", Some(3 * G), None, 30 * G),
        ("wasm", Some(1_000 * G), None, 10_000 * G),
        ("wasm", None, Some(4.0), 100 * G),
        ("wasm", None, Some(0.5), 12_500_000_000),
        ("wasm", Some(3 * G), Some(4.0), 100 * G),
        ("wasm", Some(70 * G), Some(4.0), 140 * G),
        ("docker", None, None, 20 * G),
        ("docker", Some(3 * G), None, 30 * G),
        ("docker", None, Some(4.0), 20 * G),
        ("docker", Some(3 * G), Some(40.0), 80 * G),
    ] {
        let mut sandbox = FakeSandbox::new(move |source, calls, limits| {
            if source == "solution" {
                return Ok(Run {
                    fuel: solution.unwrap_or(0),
                    ..completed(returned(&["2", "4", "6"]))
                });
            }
            assert_eq!(limits.fuel, limit, "{backend}, {solution:?}, {seconds:?}");
            assert!(limits.backstop > limit as f64 / 12e9);
            Ok(match calls {
                [stdin] if stdin.is_empty() => exited(0, "2"),
                _ => completed(returned(&["2", "4", "6"])),
            })
        });
        sandbox.identity.backend = backend.to_owned();
        let (grader, _) = grader(sandbox);
        let time_limit = seconds.map(Duration::from_secs_f64);
        let task = CodeTask {
            time_limit,
            ..task(solution.map(|_| "solution"))
        };
        let grading = grader.judge(&task, "program", TestMode::All);
        assert_eq!(grading.verdict, Correct);
        if solution.is_none() {
            let (stdin, stdout) = (String::new(), "2".to_owned());
            let program = ProgramTask {
                tests: vec![ProgramTest { stdin, stdout }],
                time_limit,
            };
            let grading = grader.judge(&program, "program", TestMode::All);
            assert_eq!(grading.verdict, Correct);
        }
    }
}
