"""The last fence, put up by the interpreter itself when its job arrives: no processes, threads, signals, timers or sockets from here on.

The container's own fences (namespaces, capabilities, its system call filter, control groups) are around this one and do not depend on it.
"""

import ctypes
import os
import platform
import resource

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050001, 0x80000000  # REFUSE is with EPERM

SYSTEM_CALLS = {
    # architecture, and what is refused:
    # clone fork vfork clone3 execve execveat socket socketpair ptrace process_vm_readv process_vm_writev kill tkill tgkill
    # rt_sigqueueinfo rt_tgsigqueueinfo alarm setitimer timer_create timerfd_create memfd_create personality
    "x86_64": (
        0xC000003E,
        (56, 57, 58, 435, 59, 322, 41, 53, 101, 310, 311, 62, 200, 234, 129, 297, 37, 38, 222, 283, 319, 135),
    ),
    "aarch64": (
        0xC00000B7,
        (220, 435, 221, 281, 198, 199, 117, 270, 271, 129, 130, 131, 138, 240, 103, 107, 85, 279, 92),
    ),
}  # fmt: skip

# Refused with some arguments: prlimit64 and fcntl.
CONDITIONAL = {"x86_64": (302, 72), "aarch64": (261, 25)}


class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("value", ctypes.c_uint)]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(Instruction))]


def compiled():
    """The filter, as the kernel takes it."""
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    architecture, refused = SYSTEM_CALLS[platform.machine()]
    lines = [
        (load, 0, 0, 4),
        (equal, 1, 0, architecture),
        (answer, 0, 0, KILL),
        (load, 0, 0, 0),
        (at_least, 0, 1, 0x40000000),  # numbers of another calling convention
        (answer, 0, 0, KILL),
    ]
    for number in refused:
        lines += [(equal, 0, 1, number), (answer, 0, 0, REFUSE)]
    own_limits, descriptors = CONDITIONAL[platform.machine()]
    # Limits of another process: `prlimit64` of anyone but the caller.
    lines += [(equal, 0, 4, own_limits), (load, 0, 0, 16), (equal, 1, 0, 0), (answer, 0, 0, REFUSE), (answer, 0, 0, ALLOW)]
    # Signals to another process: `fcntl` with F_SETOWN, F_SETSIG, F_SETOWN_EX.
    lines += [(equal, 0, 8, descriptors), (load, 0, 0, 24)]
    for command in (8, 10, 15):
        lines += [(equal, 0, 1, command), (answer, 0, 0, REFUSE)]
    lines += [(answer, 0, 0, ALLOW)]
    lines.append((answer, 0, 0, ALLOW))
    instructions = (Instruction * len(lines))(*[Instruction(*line) for line in lines])
    return Program(len(lines), instructions)


program = compiled()
control = ctypes.CDLL(None).prctl
control.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
set_limit, size_unit = resource.setrlimit, resource.getpagesize()
limits = (resource.RLIMIT_AS, resource.RLIMIT_CPU)
current_size = open("/proc/self/statm", "rb", buffering=0)

if len(os.listdir("/proc/self/task")) != 1:
    raise RuntimeError("a library has started threads")


def confine(order):
    """`order` has the bytes of address space that the program may add, the seconds of processor time after which the kernel
    stops it (far beyond what the host allows: for when the host is gone), and the bytes of output to keep."""
    memory, seconds, output = [int(number) for number in order.split()]
    space = int(current_size.read(100).split()[0]) * size_unit + memory
    current_size.close()
    set_limit(limits[0], (space, space))
    set_limit(limits[1], (seconds, seconds))
    kept.room = output
    if control(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or control(PR_SET_SECCOMP, FILTER, ctypes.addressof(program), 0, 0):
        raise RuntimeError("the system call filter was refused")
