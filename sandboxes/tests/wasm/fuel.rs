//! Fuel: equal runs use the same fuel, to the unit.

use sandboxes::{Deferred, End, SandboxError};

use super::support::sandbox;
use crate::cases::{changed, returned, run, run_within, try_run};

#[test]
fn an_endless_loop_uses_its_fuel_to_the_unit() {
    let source = "def f(x):\n    while x: pass\n    return 1";
    let limits = changed(|it| it.fuel = 1_000_000_000);
    for _ in 0..2 {
        let run = run_within(sandbox(), source, &["[0]", "[1]", "[0]"], &limits);
        assert_eq!((run.end, run.fuel), (End::OutOfFuel, limits.fuel));
        assert_eq!(run.calls, [returned("1")], "earlier answers stay");
    }
}

#[test]
fn equal_runs_use_equal_fuel() {
    let source = "import random, time\ndef f(n):\n    random.shuffle(x := list(range(n))); time.time(); return sorted({str(i) for i in x}), id(x) % 97";
    let fuel = [(); 3].map(|()| run(sandbox(), source, &["[500]", "[20]"]).fuel);
    let is_equal = fuel.iter().all(|&used| used == fuel[0]);
    assert!(fuel[0] > 0 && is_equal, "{fuel:?}");
}

#[test]
fn the_backstop_is_a_failure_of_the_sandbox_not_of_the_program() {
    let limits = changed(|it| (it.backstop, it.fuel) = (0.05, u64::MAX / 2));
    let source = "def f():\n    while True: pass";
    assert!(matches!(
        try_run(sandbox(), source, &["[]"], &limits),
        Err(SandboxError::Deferred(Deferred::Failed(_)))
    ));
}

#[test]
fn work_of_the_host_costs_fuel_for_the_time_that_it_takes() {
    for (operation, price) in [
        ("_host.call(b'P')", 12_000),
        ("os.urandom(1)", 1_000),
        ("os.urandom(10000)", 160_000),
        ("time.sleep(0)", 1_000),
        ("os.write(1, b'')", 1_000),
    ] {
        let source = format!(
            "import _host, os, time\ndef f(n):\n    for _ in range(n): {operation}\n    return 1"
        );
        let fuel = |calls| run(sandbox(), &source, &[calls]).fuel;
        let each = (fuel("[1000]") - fuel("[0]")) / 1_000;
        assert!(each > price, "{operation} costs {each}");
    }
}
