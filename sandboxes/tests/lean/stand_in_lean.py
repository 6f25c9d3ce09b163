"""A stand-in for `lean --json -R FOLDER -o OLEAN FILE` without Lean. The first word of each line of the file is a command: `say` writes a message, and others do what their names
state. It exits with 1 if it wrote an error.
"""

import ctypes
import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

path = Path(sys.argv[-1])
wrong = False
left = lambda to: Path(to).write_text("compiled")
print("chatter that is no message", flush=True)
for number, line in enumerate(path.read_text().splitlines(), 1):
    word, _, rest = line.partition(" ")
    severity = "information"
    match word:
        case "say":
            data = rest
        case "error" | "warning":
            severity, data = word, rest
        case "misplace":
            # Lean places an error at the beginning of the file if it has no place of its own.
            severity, number, data = "error", 1, rest
        case "write":
            # Its own file, a file beside it, one in the home folder.
            done = []
            for target in [path, path.parent / "beside", Path.home() / "stand-in"]:
                try:
                    target.write_text("written")
                    done.append(target.name)
                except OSError:
                    pass
            data = f"wrote {done}"
        case "call":
            try:
                socket.create_connection(("127.0.0.1", int(rest)), timeout=2)
                data = "called"
            except OSError:
                data = "nobody there"
        case "knock":
            try:
                socket.socket(socket.AF_UNIX).connect(rest)
                data = "called"
            except OSError:
                data = "nobody there"
        case "read":
            try:
                data = Path(rest).read_text() or "nothing there"
            except OSError:
                data = "nothing there"
        case "look":
            data = f"{len([name for name in os.listdir('/proc') if name.isdigit()])} processes"
        case "variables":
            data = " ".join(sorted(os.environ))
        case "times":
            start = time.time()
            time.sleep(0.2)
            data = f"{start} {time.time()}"
        case "link":
            left = lambda to: os.symlink(rest, to)
            continue
        case "pipe":
            left = os.mkfifo
            continue
        case "folder":
            left = os.mkdir
            continue
        case "fill":
            # It takes no room, and would take 1 GiB where it was read.
            left = lambda to: os.truncate(os.open(to, os.O_CREAT | os.O_WRONLY), 1 << 30)
            continue
        case "hoard":
            # What has no name any more takes room, too.
            mib = 0
            try:
                with (Path(rest or path.parent) / "hoard").open("wb", buffering=0) as file:
                    os.unlink(file.name)
                    while mib < 256:
                        mib += file.write(bytes(1 << 20)) >> 20
            except OSError:
                pass
            data = str(mib)
        case "leave":
            new_user_namespace = 0x10000000
            data = "stays" if ctypes.CDLL(None).unshare(new_user_namespace) else "left"
        case "litter":
            for place in range(70_000):
                (path.parent / f"{place}").touch()
            continue
        case "hang":
            time.sleep(3600)
        case "spin":
            while True:
                pass
        case "crowd":
            for _ in range(100):
                if os.fork() == 0:
                    break
            time.sleep(3600)
        case "conceal":
            # No process maps this memory.
            file = os.memfd_create("concealed")
            for _ in range(200):
                os.write(file, bytes(1 << 20))
            time.sleep(3600)
        case "behead":
            # Under the number of a process whose first thread has ended, the system shows no memory and no files.
            def hold():
                memory = bytearray(200 << 20)
                time.sleep(3600)

            threading.Thread(target=hold).start()
            ctypes.CDLL(None).pthread_exit(None)
        case "hide":
            ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
            time.sleep(3600)
        case "wait":
            while Path("/proc/self/oom_score_adj").read_text() != "1000\n":
                time.sleep(0.01)
            data = "ended first without memory"
        case "die":
            os.abort()
        case "exit":
            sys.exit(1)
        case _:
            continue
    wrong |= severity == "error"
    print(json.dumps({"severity": severity, "pos": {"line": number, "column": 0}, "data": data, "fileName": str(path)}))
if "-o" in sys.argv and not wrong:
    left(sys.argv[sys.argv.index("-o") + 1])
sys.exit(int(wrong))
