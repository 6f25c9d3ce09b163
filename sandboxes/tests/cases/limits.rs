//! Every limit ends a run in its own way, the same each time.

use std::sync::atomic::{AtomicUsize, Ordering};

use sandboxes::{Abandoned, Call, Deferred, End, Request, Sandbox, Work};

use super::{
    assert_unusable, changed, program, result, returned, run, run_within, timed_out, try_run,
};

pub(crate) fn a_loop_inside_one_library_call_is_metered(sandbox: &dyn Sandbox) {
    let limits = changed(|it| it.fuel = 1_000_000_000);
    for body in [
        "return 10 ** 10 ** 8",
        "import re; return re.match(r'(a+)+$', 'a' * 40 + 'b')",
        "x = bytearray(1 << 28)\n    while True: x[:] = bytes(1 << 28)",
    ] {
        let run = run_within(sandbox, &format!("def f():\n    {body}"), &["[]"], &limits);
        assert!(timed_out(&run.end), "{body}: {run:?}");
    }
}

pub(crate) fn an_abandoned_run_is_broken_off(sandbox: &dyn Sandbox) {
    let limits = changed(|it| it.fuel = u64::MAX / 2);
    let source = "def f():\n    while True: pass";
    let program = program(source);
    let forever = format!("{source}\nf()");
    let calls = ["[]".to_owned()];
    for work in [
        Work::Calls {
            program,
            calls: &calls,
        },
        Work::Tests {
            program,
            prelude: "",
            tests: &["f()".to_owned()],
        },
        Work::WholeProgram {
            source: &forever,
            stdin: "",
        },
    ] {
        let asked = AtomicUsize::new(0);
        let abandoned = Abandoned::new(move || asked.fetch_add(1, Ordering::Relaxed) > 1);
        let request = Request {
            abandoned: Some(&abandoned),
            ..Request::new(work, &limits)
        };
        assert_eq!(sandbox.run(&request), Err(Deferred::Abandoned.into()));
    }
}

pub(crate) fn a_program_that_takes_all_memory_is_out_of_memory(sandbox: &dyn Sandbox) {
    for body in [
        "x = [0]\n    while True: x += x",
        "try: x = b'x' * (3 << 29)\n    except MemoryError: return 1",
        "return ['x' * (1 << 20) + str(i) for i in range(4000)]",
    ] {
        let limits = changed(|it| it.memory = 512 << 20);
        let run = run_within(sandbox, &format!("def f():\n    {body}"), &["[]"], &limits);
        assert_eq!((run.end, run.calls), (End::OutOfMemory, vec![]), "{body}");
    }
}

pub(crate) fn a_memory_limit_below_the_interpreters_size_is_refused(sandbox: &dyn Sandbox) {
    let limits = changed(|it| it.memory = 1 << 20);
    assert_unusable(try_run(sandbox, "", &[], &limits), &["memory limit"]);
}

pub(crate) fn endless_recursion_raises_and_the_next_call_works(sandbox: &dyn Sandbox) {
    let sources = [
        "def f(n): return 1 + f(n) if n else 0",
        "class A:\n    def __getattr__(self, name): return getattr(self, name + 'x')\ndef f(n): return A().b if n else 0",
        "class A:\n    def __repr__(self): return repr(self)\ndef f(n): return repr(A()) if n else 0",
        "class A:\n    def __lt__(self, other): return sorted([A(), A()])\ndef f(n): return sorted([A(), A()]) if n else 0",
        "class A:\n    def __add__(self, other): return sum([A(), A()], A())\ndef f(n): return A() + 1 if n else 0",
        "import functools\n@functools.lru_cache(None)\ndef g(n): return g(n + 1)\ndef f(n): return g(0) if n else 0",
        "import copy\ndef f(n):\n    x = []\n    for _ in range(100000): x = [x]\n    return copy.deepcopy(x) if n else 0",
        "def f(n):\n    x, y = [], []\n    for _ in range(1000000): x, y = [x], [y]\n    return x == y if n else 0",
        "import json\ndef f(n): return json.loads('[' * 1000000) if n else 0",
    ];
    for source in sources {
        let run = run(sandbox, source, &["[1]", "[0]"]);
        assert_eq!(run.end, End::Completed, "{source}");
        let raised = matches!(&run.calls[0], Call::Raised { kind, .. } if kind == "RecursionError");
        assert!(raised, "{source}: {:?}", run.calls[0]);
        assert_eq!(run.calls[1], returned("0"), "{source}");
    }
}

pub(crate) fn a_program_with_a_raised_recursion_limit_still_gets_a_verdict(sandbox: &dyn Sandbox) {
    for source in [
        "import sys\nsys.setrecursionlimit(10**6)\ndef f(n=0): return f(n + 1)",
        "import sys\nsys.setrecursionlimit(10**6)\nclass A:\n    def __repr__(self): return repr(self)\ndef f(): return repr(A())",
        "import sys\nsys.setrecursionlimit(10**6)\nclass A:\n    def __getattr__(self, name): return getattr(self, name + 'x')\ndef f(): return A().b",
    ] {
        let limits = changed(|it| it.memory = 256 << 20);
        let run = run_within(sandbox, source, &["[]"], &limits);
        let raised = matches!(run.calls.first(), Some(Call::Raised { kind, .. }) if kind == "RecursionError");
        let ended = run.end == End::OutOfMemory || matches!(run.end, End::Died(_));
        assert!(raised || ended, "{run:?}");
    }
}

pub(crate) fn deeply_nested_source_is_refused_by_the_compiler_without_a_crash(
    sandbox: &dyn Sandbox,
) {
    for source in [
        format!("x = {}1{}", "(".repeat(5000), ")".repeat(5000)),
        format!("x = {}1", "-".repeat(100_000)),
        format!("x = {}", ["1"; 20000].join("+")),
        "\0".to_owned(),
    ] {
        let run = run(sandbox, &source, &["[]"]);
        assert!(matches!(&run.end, End::Unloadable { .. }), "{:?}", run.end);
    }
}

pub(crate) fn output_is_returned_up_to_its_limit(sandbox: &dyn Sandbox) {
    let limits = changed(|it| it.output = 10);
    let source = "def f():\n    for i in range(100000): print('0123')";
    let run = run_within(sandbox, source, &["[]"], &limits);
    assert_eq!(run.stdout, "0123\n0123\n");
    assert_eq!(run.end, End::Completed);
}

pub(crate) fn sleeping_takes_only_virtual_time(sandbox: &dyn Sandbox) {
    let start = std::time::Instant::now();
    let source = "import time\ndef f():\n    a, b = time.time(), time.monotonic()\n    time.sleep(3600)\n    return [3600 <= time.time() - a < 3601, 3600 <= time.monotonic() - b < 3601]";
    assert_eq!(result(sandbox, source), "[true,true]");
    assert!(start.elapsed().as_secs() < 600);
}
