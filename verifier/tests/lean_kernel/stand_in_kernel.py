#!/usr/bin/env python3
"""A stand-in for `rapid-verifier kernel`. It accepts every proof, or misbehaves as the file `mode` beside it names. It writes the kind of each request to the file `asked`."""

import json
import os
import struct
import sys
from pathlib import Path

here = Path(__file__).parent
mode = (here / "mode").read_text()
stdin, stdout = sys.stdin.buffer, sys.stdout.buffer


def answer(number, said):
    text = json.dumps({"number": number, "said": said}).encode()
    stdout.write(struct.pack("<I", len(text)) + text)
    stdout.flush()


def die(last_words):
    print(last_words, file=sys.stderr, flush=True)
    os.abort()


answer(0, {"hello": (here / "hello").read_text()})
while length := stdin.read(4):
    head = json.loads(stdin.read(struct.unpack("<I", length)[0]))
    for size in head["files"]:
        stdin.read(size)
    number, ask = head["number"], head["ask"]
    kind = ask if isinstance(ask, str) else next(iter(ask))
    before = (here / "asked").read_text().split() if (here / "asked").exists() else []
    with open(here / "asked", "a") as asked:
        asked.write(kind + "\n")
    if kind == "statement":
        answer(number, "ready")
        continue
    if kind == "alone" and mode != "all":
        answer(number, "ready")
        continue
    match mode:
        case "killed":
            os.kill(os.getpid(), 9)
        case "killed-once" if "proof" not in before:
            os.kill(os.getpid(), 9)
        case "memory":
            die("memory allocation of 1073741824 bytes failed")
        case "stack" | "all":
            die("thread 'lean-kernel' has overflowed its stack")
        case "another":
            answer(number + 1, {"proved": []})
        case "forged":
            answer(number, {"proved": ["sorryAx"]})
        case "unfollowed":
            answer(number, {"proved": None})
        case "long":
            stdout.write(struct.pack("<I", 1 << 31))
            stdout.flush()
        case "babble":
            stdout.write(b"\x05\0\0\0proof")
            stdout.flush()
        case "panic":
            answer(number, "failed")
        case _:
            answer(number, {"proved": []})
