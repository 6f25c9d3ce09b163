"""The first process of a container: starts the interpreter that will run the program, and says by its own exit status how that one ended.

The program cannot reach it: it may not send signals, and this process shows nothing of itself to its equals.
"""

import _signal as signal
import ctypes
import os

PR_SET_DUMPABLE = 4
# `guest.rs` knows them: stopped for want of the container's memory, or of the machine's; killed from outside; left with one of these numbers, or killed, by its own doing.
OUT_OF_MEMORY, MACHINE, OUTSIDE, ITSELF = 250, 248, 137, 249


def take(length):
    taken = b""
    while len(taken) < length:
        piece = os.read(0, length - len(taken))
        if not piece:
            os._exit(0)
        taken += piece
    return taken


def numbers(name):
    """The numbers in a file of the control group, by the words before them; none where this machine has no such file."""
    try:
        lines = open("/sys/fs/cgroup/" + name).read().splitlines()
        return {key: int(value) for key, _, value in [line.rpartition(" ") for line in lines]}
    except (OSError, ValueError):
        return {}


def out_of_memory():
    """`None` where the kernel killed nothing for want of memory; else whether it was the container's limit that was met, not the machine's end."""
    new, old = numbers("memory.events"), numbers("memory/memory.oom_control")
    if not new.get("oom_kill", old.get("oom_kill")):
        return None
    highest, limit = numbers("memory/memory.max_usage_in_bytes"), numbers("memory/memory.limit_in_bytes")
    return bool(new["oom"] if "oom" in new else highest.get("", 0) * 64 >= limit.get("", 0) * 63)


ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
child = os.fork()
if child:
    # What has no handler does not reach the first process from within.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.closerange(0, 3)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status):
        code = os.WEXITSTATUS(status)
        os._exit(ITSELF if code in (OUT_OF_MEMORY, MACHINE, OUTSIDE) else code)
    if os.WTERMSIG(status) != 9:
        os._exit(128 + os.WTERMSIG(status))
    os._exit({None: ITSELF, True: OUT_OF_MEMORY, False: MACHINE}[out_of_memory()])

source = take(int.from_bytes(take(4), "big"))
for name in [name for name in globals() if not name.startswith("__") and name != "source"]:
    del globals()[name]
exec(compile(source, "<warm>", "exec"), globals())
