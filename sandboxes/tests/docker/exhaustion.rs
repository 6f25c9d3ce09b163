//! A program that exhausts a resource ends only its own run, in bounded time, and the next run has all its resources.

use sandboxes::{Call, End, Limits};

use super::support::shared;
use crate::cases::{result, run_within};

fn small_limits() -> Limits {
    Limits {
        fuel: 1_000_000_000,
        memory: 256 << 20,
        ..Limits::default()
    }
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
        let run = run_within(
            &*sandbox,
            &source,
            &["[1]", "[2]", "[0]", "[3]"],
            &small_limits(),
        );
        assert_eq!(run.end, End::OutOfTime, "{body}");
        assert_eq!(
            run.calls,
            ["1", "2"].map(|value| Call::Returned(value.to_owned())),
            "{body}"
        );
    }
}

#[test]
fn a_program_that_loops_in_some_runs_is_out_of_time_in_those() {
    let Some(sandbox) = shared() else { return };
    // The machine's clock decides which runs loop. A program can read it if it tries.
    let source = "def f():\n    if int(open('/proc/uptime').read().split()[0].split('.')[1]) % 2: return 1\n    while True: pass";
    for _ in 0..8 {
        let run = run_within(&*sandbox, source, &["[]"], &small_limits());
        assert!(
            matches!(run.end, End::Completed | End::OutOfTime),
            "{run:?}"
        );
    }
}

#[test]
fn exhausted_processes_and_files_affect_only_their_run() {
    let Some(sandbox) = shared() else { return };
    for body in [
        "while True:\n        try: os.fork()\n        except OSError: pass",
        "while True: open('/dev/null')",
    ] {
        let source = format!("import os\ndef f():\n    {body}");
        let run = run_within(&*sandbox, &source, &["[]"], &small_limits());
        assert_eq!((run.end, run.calls), (End::OutOfTime, vec![]), "{body}");
    }
    assert_eq!(
        result(
            &*sandbox,
            "import os\nx = [open('/dev/null') for _ in range(20)]\ndef f(): return len(x)"
        ),
        "20"
    );
}

#[test]
fn exhausted_memory_affects_only_its_run() {
    let Some(sandbox) = shared() else { return };
    // Enough time to touch all of the memory on any machine.
    let limits = Limits {
        fuel: Limits::default().fuel,
        ..small_limits()
    };
    for body in [
        "x = []\n    while True: x.append(bytes(1 << 20) + b'x')",
        "x = [0] * 10\n    while True: x += x",
    ] {
        let source = format!("def f():\n    {body}");
        let run = run_within(&*sandbox, &source, &["[]"], &limits);
        assert_eq!((run.end, run.calls), (End::OutOfMemory, vec![]), "{body}");
    }
    assert_eq!(
        result(&*sandbox, "x = bytes(1 << 27)\ndef f(): return len(x)"),
        "134217728"
    );
}

#[test]
fn files_beyond_the_limit_are_refused() {
    let Some(sandbox) = shared() else { return };
    assert_eq!(
        result(
            &*sandbox,
            "def f():\n    try: return len([open('/dev/null') for _ in range(1000)])\n    except OSError as error: return error.errno"
        ),
        "24"
    );
}

#[test]
fn a_huge_value_becomes_a_digest_in_bounded_memory() {
    let Some(sandbox) = shared() else { return };
    let limits = Limits {
        value: 1 << 16,
        ..Limits::default()
    };
    let run = run_within(
        &*sandbox,
        "def f(n): return ['x' * 1000] * n",
        &["[100000]", "[1]"],
        &limits,
    );
    assert!(
        matches!(&run.calls[0], Call::Returned(value) if value.starts_with("{\"$digest\"")),
        "{:?}",
        run.end
    );
    assert_eq!(run.calls.len(), 2);
}
