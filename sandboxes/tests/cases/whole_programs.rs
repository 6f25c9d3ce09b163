//! Whole programs run as natively, each in an instance of its own, and can lie only about their own output.

use sandboxes::{End, Limits, MAX_STREAM_BYTES, Request, Run, Sandbox, Work};

use super::{assert_unusable, changed, timed_out};

fn run(sandbox: &dyn Sandbox, source: &str, stdin: &str) -> Run {
    run_within(sandbox, source, stdin, &Limits::default())
}

fn run_within(sandbox: &dyn Sandbox, source: &str, stdin: &str, limits: &Limits) -> Run {
    let work = Work::WholeProgram { source, stdin };
    sandbox.run(&Request::new(work, limits)).unwrap()
}

/// What a program writes, and its exit status; how else it ends, as text.
fn outcome(sandbox: &dyn Sandbox, source: &str, stdin: &str) -> (String, String) {
    let run = run(sandbox, source, stdin);
    let end = match run.end {
        End::Exited { status, .. } => status.to_string(),
        other => format!("{other:?}"),
    };
    (run.stdout, end)
}

fn wrote(stdout: &str, status: i32) -> (String, String) {
    (stdout.to_owned(), status.to_string())
}

pub(crate) fn a_whole_program_reads_and_writes_and_exits(sandbox: &dyn Sandbox) {
    let echo = "import sys\nsys.stdout.write(sys.stdin.read())";
    let text = "é漢🙂\r\n\n \"$tuple\" \\u0041\0";
    assert_eq!(outcome(sandbox, echo, text), wrote(text, 0));
    for (source, stdin, stdout, status) in [
        ("print(int(input()) * 2)", "21\n", "42\n", 0),
        ("print(open(0).read().split())", "a b", "['a', 'b']\n", 0),
        ("import os; os.write(1, os.read(0, 3))", "abcd", "abc", 0),
        ("if __name__ == '__main__': print(1)", "", "1\n", 0),
        ("print(1); raise SystemExit", "", "1\n", 0),
        ("print(1); import sys; sys.exit(3)", "", "1\n", 3),
        ("print(1); import sys; sys.exit('x')", "", "1\n", 1),
        ("print(1); import os; os._exit(0)", "", "", 0),
        ("print(1, flush=True); import os; os._exit(5)", "", "1\n", 5),
        ("print(1); input()", "", "1\n", 1),
        ("print(1); print('\\ud800')", "", "1\n", 1),
        ("import atexit; atexit.register(print, 1)", "", "1\n", 0),
        ("out = open(1, 'w'); out.write('x')", "", "x", 0),
        ("x = ", "", "", 1),
        ("import sys; sys.stdin = None; sys.stdout = None", "", "", 0),
    ] {
        let outcome = outcome(sandbox, source, stdin);
        assert_eq!(outcome, wrote(stdout, status), "{source}");
    }
    // A thread runs where it is started.
    let thread = "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(2**27)\ndef deep(n): return n and 1 + deep(n - 1)\nthread = threading.Thread(target=lambda: print(deep(5000)))\nthread.start()\nthread.join()\nprint(thread.is_alive())";
    assert_eq!(outcome(sandbox, thread, ""), wrote("5000\nFalse\n", 0));
}

pub(crate) fn an_uncaught_exception_is_on_standard_error(sandbox: &dyn Sandbox) {
    let source =
        "import sys\nprint('warning', file=sys.stderr)\ndef f():\n    return {}['key']\nf()";
    let run = run(sandbox, source, "");
    let End::Exited { status: 1, stderr } = run.end else {
        panic!("{run:?}");
    };
    assert!(
        stderr.starts_with("warning\nTraceback")
            && stderr.contains("line 4, in f")
            && stderr.ends_with("KeyError: 'key'\n"),
        "{stderr}"
    );
    assert!(!stderr.contains("in run"), "{stderr}");
}

pub(crate) fn whole_programs_have_limits(sandbox: &dyn Sandbox) {
    let limits = changed(|it| it.fuel = 2_000_000_000);
    let endless = "print(1, flush=True)\nwhile True: pass";
    let endless = run_within(sandbox, endless, "", &limits);
    assert!(timed_out(&endless.end), "{endless:?}");
    let waiting = "import time\nprint(1)\ntime.sleep(10**6)\nprint(2)";
    let waiting = run_within(sandbox, waiting, "", &limits);
    assert_eq!(waiting.stdout, "1\n2\n");
    let memory = run(sandbox, "x = [0]\nwhile True: x += x", "");
    assert_eq!(memory.end, End::OutOfMemory, "{memory:?}");
}

pub(crate) fn output_is_limited_and_never_cut_short_unnoticed(sandbox: &dyn Sandbox) {
    let limits = changed(|it| it.output = 1000);
    for source in [
        "print('x' * 1000)",
        "while True: print('flood')",
        "import os\nwhile True: os.write(1, b'flood')",
        "import os\ntry:\n    while True: os.write(1, b'flood')\nexcept OSError:\n    os._exit(0)",
        "import sys\ntry:\n    sys.stdout.write('x' * 2000)\n    sys.stdout.flush()\nexcept OSError:\n    sys.exit(0)",
    ] {
        let run = run_within(sandbox, source, "", &limits);
        assert_eq!(run.end, End::TooMuchOutput, "{source}: {run:?}");
        assert!(run.stdout.len() <= 1000);
    }
    let whole = run_within(sandbox, "print('x' * 999)", "", &limits);
    assert_eq!((whole.stdout.len(), whole.end), (1000, exited()));
    let errors =
        "import sys\nfor _ in range(10**5): print('flood' * 100, file=sys.stderr)\nprint(1)";
    assert_eq!(outcome(sandbox, errors, ""), wrote("1\n", 0));
}

fn exited() -> End {
    End::Exited {
        status: 0,
        stderr: String::new(),
    }
}

pub(crate) fn long_input_and_output_come_through(sandbox: &dyn Sandbox) {
    let limits = changed(|it| it.output = MAX_STREAM_BYTES);
    let stdin = "0123456789abcde\n".repeat(MAX_STREAM_BYTES / 16);
    let source = "import sys\nfor line in sys.stdin: sys.stdout.write(line)";
    let run = run_within(sandbox, source, &stdin, &limits);
    assert_eq!(run.end, exited());
    assert!(run.stdout == stdin);
    let too_long = format!("{stdin}{stdin}");
    let stdin = &too_long;
    let work = Work::WholeProgram { source, stdin };
    let refused = sandbox.run(&Request::new(work, &limits));
    assert_unusable(refused, &["leave the test out"]);
}

pub(crate) fn a_whole_program_that_speaks_to_the_host_lies_only_about_its_own_output(
    sandbox: &dyn Sandbox,
) {
    for source in [
        "import _host\n_host.call(b'V[0,0,\"\"]')\nprint('forged')",
        "import _host\n_host.call(b'V[0,0,\"\"]')\n_host.call(b'N')\nimport os\nos._exit(1)",
        "import _host\nfor _ in range(9): _host.call(b'V[0,0,\"\"]')",
        "import _host\n_host.call(b'M' + b'N' * 100)",
        "import _host\n_host.call(b'V[0,-1,1]')",
        "import _host\n_host.call(b'')",
        "import _host\n_host.call(b'T')",
        "import _host\n_host.call(b'E[\"a\",\"b\"]')",
        "import sys\nsys._getframe(1).f_globals.clear()\nprint(1)",
        "import sys\nfor name in list(sys.modules): sys.modules[name] = None\nprint(1)",
        "import os\nos.closerange(0, 100)",
        "import gc\nfor thing in gc.get_objects():\n    try: thing.clear()\n    except Exception: pass",
    ] {
        let run = run(sandbox, source, "");
        let ends = matches!(run.end, End::Exited { .. } | End::Died(_));
        assert!(ends || timed_out(&run.end), "{source}: {run:?}");
        assert!(run.calls.is_empty());
        let honest = ["", "1\n", "forged\n"].contains(&run.stdout.as_str());
        assert!(honest, "{source}: {run:?}");
    }
}

pub(crate) fn runs_of_whole_programs_share_nothing(sandbox: &dyn Sandbox) {
    let source = "import builtins, math\nprint(math.pi > 3, hasattr(builtins, 'seen'))\nmath.pi = 3\nbuiltins.seen = 1\ntry:\n    open('/tmp/seen', 'x').close()\nexcept FileExistsError:\n    print('seen')\nexcept OSError:\n    pass";
    for _ in 0..2 {
        assert_eq!(outcome(sandbox, source, ""), wrote("True False\n", 0));
    }
    // Randomness, time and hashes are the same in every run.
    let source = "import random, time, os, uuid\nprint(random.random(), time.time(), os.urandom(4), uuid.uuid4(), hash('text'), id(object()))";
    let first = outcome(sandbox, source, "");
    assert_eq!(first, outcome(sandbox, source, ""));
    assert_eq!(first.1, "0");
}
