//! A native program can reach the harness's files, memory and exit status. With these it can only end its own run.

use sandboxes::{Call, End};

use super::support::shared;
use crate::cases::{changed, returned, run, run_within};

#[test]
fn every_way_to_exit_the_process_ends_the_run_and_decides_nothing_else() {
    let Some(sandbox) = shared() else { return };
    for body in [
        "os._exit(0)",
        "os._exit(1)",
        // The exit status of a kill from outside.
        "os._exit(137)",
        "ctypes.CDLL(None).syscall(60, 137)",
        "os.abort()",
        "ctypes.string_at(0)",
        "ctypes.CDLL(None).exit(0)",
        "os.closerange(0, 100)",
        "[os.dup2(os.open('/dev/null', 2), fd) for fd in range(20)]",
        "os._exit(250)",
        // A SIGKILL from the kernel, caused by the program itself.
        "resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\n    while True: pass",
    ] {
        let source = format!(
            "import os, ctypes, resource\ndef f(n):\n    if n == 0: return 0\n    {body}\n    return 1"
        );
        let run = run(&*sandbox, &source, &["[0]", "[1]", "[0]"]);
        assert_eq!(run.calls, [returned("0")], "{body}");
        assert!(matches!(run.end, End::Died(_)), "{body}: {:?}", run.end);
    }
}

#[test]
fn garbage_on_the_connection_to_the_host_ends_the_run() {
    let Some(sandbox) = shared() else { return };
    for body in [
        "while True: os.write(out, b'garbage' * 1000)",
        "os.write(out, b'\\xff\\xff\\xff\\xff')",
        "os.write(out, b'\\0\\0\\0\\0')",
        "os.write(out, b'\\0\\0\\0\\3V1')\n    os._exit(0)",
        "os.write(out, b'\\0\\0\\0\\1J')",
        "while True: os.write(out, b'\\0\\0\\0\\2PP')\n",
    ] {
        // The connection to the host is the only pipe that can be written to.
        let source = format!(
            "import os, stat, fcntl\ndef pipe(fd):\n    try: return stat.S_ISFIFO(os.fstat(fd).st_mode) and fcntl.fcntl(fd, fcntl.F_GETFL) & 3 == os.O_WRONLY\n    except OSError: return False\ndef f():\n    out = next(fd for fd in range(64) if pipe(fd))\n    {body}\n    return 1"
        );
        let limits = changed(|it| (it.fuel, it.value) = (1_000_000_000, 1 << 16));
        let run = run_within(&*sandbox, &source, &["[]", "[]"], &limits);
        let broken_off = !matches!(run.end, End::Completed | End::Unloadable { .. });
        assert!(broken_off, "{body}: {run:?}");
        assert_eq!(run.calls, [], "{body}");
    }
}

#[test]
fn printed_text_is_bounded_however_it_is_sent() {
    let Some(sandbox) = shared() else { return };
    let limits = changed(|it| it.output = 1000);
    for body in [
        "for _ in range(1000): print('x' * 10000)",
        "for _ in range(100): os.write(1, bytes(1 << 20)); os.write(2, bytes(1 << 20))",
        "for _ in range(1000): _host.call(b'O' + b'x' * 1000)",
    ] {
        let source = format!("import os, _host\ndef f():\n    {body}\n    return 7");
        let run = run_within(&*sandbox, &source, &["[]"], &limits);
        assert_eq!(run.calls, [returned("7")], "{body}");
        assert!(run.stdout.len() <= limits.output, "{body}");
    }
}

#[test]
fn a_program_can_neither_change_nor_signal_the_first_process() {
    let Some(sandbox) = shared() else { return };
    for body in [
        "import resource\n    resource.prlimit(1, resource.RLIMIT_CPU, (0, 0))",
        "import fcntl, os\n    fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, 1)",
        "import fcntl, os\n    fcntl.fcntl(os.pipe()[0], 10, 2)",
    ] {
        let outcome = run(&*sandbox, &format!("def f():\n    {body}"), &["[]"]);
        let refused = matches!(outcome.calls.as_slice(), [Call::Raised { kind, .. }] if kind == "PermissionError");
        assert!(refused, "{body}: {outcome:?}");
        assert_eq!(outcome.end, End::Completed, "{body}");
    }
    let alarm = "import signal\ndef f():\n    signal.alarm(1)\n    return 1";
    assert_eq!(run(&*sandbox, alarm, &["[]"]).end, End::Completed);
}
