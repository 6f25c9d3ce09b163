"""A stand-in for a Lean REPL that misbehaves on request. It speaks leanprover-community/repl's protocol and knows no Lean.

A header that holds `poison` is answered with an error. Of a body, the first word says what to do; otherwise the answer repeats the body's first line, so that a test
sees whose answer it got. `{"kept": N}` counts the bodies that this process has read.
"""

import json
import os
import subprocess
import sys
import time


def message(severity, line, data):
    return {"severity": severity, "pos": {"line": line, "column": 0}, "endPos": None, "data": data}


def answer(env, messages, **more):
    print(json.dumps({"env": env, "messages": messages} | more, indent=1), end="\n\n", flush=True)


def read():
    lines = []
    for line in sys.stdin:
        if not line.strip():
            return json.loads("".join(lines))
        lines.append(line)
    sys.exit(0)


def main():
    env, bodies, last, hoard = 0, 0, None, []
    while True:
        command = read()
        text = command["cmd"]
        lines = text.split("\n")
        line = max(i for i, text in enumerate(lines) if text) + 1
        mark = message("info", line, lines[line - 1].removeprefix('#print "').removesuffix('"'))
        env += 1
        if "env" not in command:
            wrong = [message("error", 1, "unknown module prefix")] if "poison" in text else []
            if "slow" in text:
                time.sleep(1)
            answer(env, [*wrong, mark])
            continue
        bodies += 1
        said = message("info", 1, f"{lines[0]}, body {bodies} of {os.getpid()}")
        match lines[0].split()[0]:
            case "hang":
                time.sleep(3600)
            case "leave":
                # Children in a session of their own, which killing the group does not reach.
                subprocess.Popen(["sleep", "3600"], start_new_session=True)
                subprocess.Popen(["sleep", "3600"])
                time.sleep(3600)
            case "die":
                print("panic: unreachable", file=sys.stderr, flush=True)
                os._exit(134)
            case "die_once" if bodies > 1:
                os._exit(1)
            case "close":
                os.close(1)
                os.close(2)
                time.sleep(3600)
            case "flood":
                while True:
                    sys.stdout.write("x" * 65536)
            case "complain":
                for _ in range(100000):
                    print("a warning of no importance" * 8, file=sys.stderr)
                answer(env, [said, mark])
            case "grow":
                while True:
                    hoard.append(b"x" * (16 << 20))
            case "swell":
                hoard.append(b"x" * (int(lines[0].split()[1]) << 20))
                answer(env, [said, mark])
            case "lie":
                answer(env, [message("info", line, "end of 00000000000000000000000000000000")])
            case "again":
                # The answer to what was asked before.
                answer(env, [said, last or mark])
            case "twice":
                answer(env, [said, mark])
                answer(env, [said, mark])
            case "forget":
                print(json.dumps({"message": "Unknown environment."}), end="\n\n", flush=True)
            case "babble":
                print("this is no JSON }", end="\n\n", flush=True)
                time.sleep(3600)
            case "slow":
                time.sleep(float(lines[0].split()[1]))
                answer(env, [said, mark])
            case _:
                answer(env, [said, mark])
        last = mark


main()
