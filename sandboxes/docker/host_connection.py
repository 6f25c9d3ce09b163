"""`_host`, by which the harness asks the host: frames over what were the container's standard input and output.

A frame is its length in four bytes, the highest first, and as many bytes more. Requests begin with the letters of the harness; `O` (output of the program,
for people) is this file's own. The host answers `J`, `N`, `C` and `A`, and nothing else, so that the guest goes on at once after the others.
"""

import io
import os
import sys
import types

ANSWERED = b"JNCA"
PIECE = 1 << 16

read, write, leave = os.read, os.write, os._exit

incoming, outgoing = os.dup(0), os.dup(1)
nothing = os.open("/dev/null", os.O_RDWR)
os.dup2(nothing, 0)
os.dup2(nothing, 1)


def take(length):
    taken = bytearray()
    while len(taken) < length:
        piece = read(incoming, min(length - len(taken), PIECE))
        if not piece:
            leave(0)  # the host is gone
        taken += piece
    return bytes(taken)


def receive():
    return take(int.from_bytes(take(4), "big"))


def put(request):
    rest = memoryview(len(request).to_bytes(4, "big") + request)
    while rest:
        rest = rest[write(outgoing, rest) :]


class Kept(io.RawIOBase):
    """Standard output: as many bytes as the host wants, from the first on; the rest is dropped."""

    def __init__(self):
        self.pieces = bytearray()
        self.room = 0

    def writable(self):
        return True

    def write(self, data):
        taken = bytes(data)
        if self.room:
            self.pieces += taken[: self.room]
            self.room -= min(self.room, len(taken))
        return len(taken)


kept = Kept()
original = sys.stdout  # kept alive: it would close its file
stdout = io.TextIOWrapper(io.BufferedWriter(kept), encoding="utf-8", errors="backslashreplace", newline="\n")


def flush():
    try:
        stdout.flush()
    except BaseException:
        pass  # the program closed it
    if kept.pieces:
        put(b"O" + kept.pieces)
        kept.pieces = bytearray()


def call(request):
    """Sends one request of the harness; returns the host's answer, empty where none is awaited."""
    try:
        flush()
        put(request)
        if request[:1] == b"J":
            confine(receive())
            return receive()
        return receive() if request[:1] in ANSWERED else b""
    except OSError:
        leave(1)  # the program closed the files below


host = types.ModuleType("_host")
host.call = call
sys.modules["_host"] = host
