//! A program cannot escape: it has no rights, no files except a small /tmp, no processes, no network and no signals.

use sandboxes::End;

use super::support::shared;
use crate::cases::{result, returned, run};

/// Statements that raise an `OSError` or another exception.
const REFUSED: &[&str] = &[
    // Only /tmp can be written.
    "open('/x', 'w')",
    "open('/etc/passwd', 'a')",
    "open('/usr/lib/python3.13/os.py', 'a')",
    "open('/dev/x', 'w')",
    "open('/dev/shm/x', 'w')",
    "open('/var/tmp/x', 'w')",
    "open('/proc/sys/kernel/core_pattern', 'w')",
    "open('/sys/fs/cgroup/x', 'w')",
    "os.remove('/bin/sh')",
    "os.chmod('/tmp/..', 0o777)",
    "os.mknod('/tmp/x', 0o60600)",
    // Processes, threads and other programs.
    "os.fork()",
    "os.forkpty()",
    "os.posix_spawn('/bin/true', ['true'], {})",
    "os.execv('/bin/true', ['true'])",
    "__import__('subprocess').run(['true'])",
    "__import__('multiprocessing').Process(target=print).start()",
    "__import__('threading').Thread(target=print).start()",
    "call(435, 0, 0)",
    // Sockets, signals, timers and the kernel's interfaces.
    "__import__('socket').socket()",
    "__import__('socket').socketpair()",
    "__import__('urllib.request').request.urlopen('http://127.0.0.1')",
    "os.kill(1, 9)",
    "os.kill(0, 15)",
    "os.kill(-1, 9)",
    "os.killpg(0, 9)",
    "__import__('signal').setitimer(0, 0.1)",
    // The first process of the container, which reports how the program ended.
    "open('/proc/1/mem', 'r+b')",
    "open('/proc/1/fd/2', 'w')",
    "open('/proc/1/environ').read()",
    "os.setuid(0)",
    "os.chroot('/tmp')",
    "os.unshare(0x10000000)",
    "os.setns(0)",
    "os.memfd_create('x')",
    "os.pidfd_open(1)",
    "call(101, 0, 0, 0, 0)",       // ptrace
    "call(310, 1, 0, 0, 0, 0, 0)", // process_vm_readv
    "call(165, 0, 0, 0, 0, 0)",    // mount
    "call(321, 0, 0, 0)",          // bpf
    "call(323, 0)",                // userfaultfd
    "call(425, 1, 0)",             // io_uring_setup
    "call(250, 0, 0, 0, 0, 0)",    // keyctl
    "call(298, 0, 0, 0, 0, 0)",    // perf_event_open
    "call(304, 0, 0, 0)",          // open_by_handle_at
    "open('/dev/mem', 'rb')",
    "open('/proc/kcore', 'rb').read(1)",
];

#[test]
fn the_process_has_no_rights_and_a_filter_on_its_system_calls() {
    let Some(sandbox) = shared() else { return };
    let source = "def f():\n    lines = dict(line.split(':', 1) for line in open('/proc/self/status'))\n    return [lines[k].split() for k in ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp', 'Uid', 'Gid', 'PPid', 'Threads', 'Groups']]";
    let none = r#"["0000000000000000"]"#;
    let nobody = r#"["65534","65534","65534","65534"]"#;
    let found = result(&*sandbox, source);
    let expected = format!(
        r#"[{none},{none},{none},{none},{none},["1"],["2"],{nobody},{nobody},["1"],["1"],"#
    );
    let groups = ["[]]", r#"["65534"]]"#].map(|groups| format!("{expected}{groups}"));
    assert!(groups.contains(&found), "{found}");
}

#[test]
fn a_container_sees_nothing_of_the_host() {
    let Some(sandbox) = shared() else { return };
    let source = "import os\ndef f():\n    return [[p for p in os.listdir('/proc') if p.isdigit()] == ['1', str(os.getpid())], sorted(os.listdir('/sys/class/net')), sorted(os.environ), os.uname().nodename]";
    assert_eq!(
        result(&*sandbox, source),
        r#"[true,["lo"],["HOME","HOSTNAME","LANG","MKL_NUM_THREADS","OMP_NUM_THREADS","OPENBLAS_NUM_THREADS","PATH","PWD","PYTHONHASHSEED"],"sandbox"]"#
    );
}

#[test]
fn files_processes_sockets_signals_and_the_kernels_interfaces_are_refused() {
    let Some(sandbox) = shared() else { return };
    for statement in REFUSED {
        let source = format!(
            "import os, ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\ndef call(*a):\n    if libc.syscall(*a) < 0: raise OSError(ctypes.get_errno())\ndef f():\n    try: {statement}\n    except Exception: return 'refused'\n    return 'done'"
        );
        assert_eq!(result(&*sandbox, &source), "\"refused\"", "{statement}");
    }
}

#[test]
fn a_file_in_tmp_is_not_executable_and_tmp_is_small() {
    let Some(sandbox) = shared() else { return };
    let source = "import os
def f(size):
    name = '/tmp/program'
    with open(name, 'w') as file: file.write('#!/bin/sh')
    os.chmod(name, 0o755)
    executable = os.access(name, os.X_OK)
    try:
        for i in range(10):
            with open(f'/tmp/{i}', 'wb') as file:
                for _ in range(size): file.write(bytes(1 << 20))
    except OSError as error: return [executable, error.errno]";
    let run = run(&*sandbox, source, &["[4]", "[100]"]);
    assert_eq!(run.calls, ["[false,28]"; 2].map(returned));
    assert_eq!(run.end, End::Completed);
}
