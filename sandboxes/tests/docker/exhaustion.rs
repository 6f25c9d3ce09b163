//! A program that exhausts a resource ends only its own run, in bounded time, and the next run has all its resources.

use sandboxes::{End, Limits};

use super::support::shared;
use crate::cases::{changed, result, returned, run_within};

fn small_limits() -> Limits {
    changed(|it| (it.fuel, it.memory) = (1_000_000_000, 256 << 20))
}

#[test]
fn a_run_that_the_clock_ends_is_out_of_time_and_keeps_its_answers() {
    let Some(sandbox) = shared() else { return };
    for body in [
        "while True: pass",
        // Waiting takes no processor time.
        "lock = threading.Lock(); lock.acquire(); lock.acquire()",
        "select.select([], [], [], 10**6)",
        "os.read(os.pipe()[0], 1)",
        "signal.pause()",
        // Neither working nor idle.
        "while True: select.select([], [], [], 0.02); sum(range(20000))",
        // The host receives nothing more from it.
        "os.closerange(0, 100)\n    while True: pass",
    ] {
        let source = format!(
            "import threading, select, os, signal\ndef f(n):\n    if n: return n\n    {body}"
        );
        let calls = ["[1]", "[2]", "[0]", "[3]"];
        let run = run_within(&*sandbox, &source, &calls, &small_limits());
        assert_eq!(run.end, End::OutOfTime, "{body}");
        assert_eq!(run.calls, ["1", "2"].map(returned), "{body}");
    }
}

#[test]
fn exhausted_processes_affect_only_their_run_and_files_have_a_limit() {
    let Some(sandbox) = shared() else { return };
    for body in [
        "while True:\n        try: os.fork()\n        except OSError: pass",
        "while True: open('/dev/null')",
    ] {
        let source = format!("import os\ndef f():\n    {body}");
        let run = run_within(&*sandbox, &source, &["[]"], &small_limits());
        assert_eq!((run.end, run.calls), (End::OutOfTime, vec![]), "{body}");
    }
    for (files, expected) in [(20, "20"), (1000, "24")] {
        let source = format!(
            "def f():\n    try: return len([open('/dev/null') for _ in range({files})])\n    except OSError as error: return error.errno"
        );
        assert_eq!(result(&*sandbox, &source), expected);
    }
}
