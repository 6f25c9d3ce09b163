# Sends, without an end, a long text and many references to it, and a last byte that is no value, so that nothing comes of all that was made of them.
# verdict: timeout incorrect

import _host

TEXT = b"x" * (4 << 20)
FORM = b"[\x3e\x00\x00\x00" + b"\xf5" + len(TEXT).to_bytes(4, "little") + TEXT + b"r\x00\x00\x00\x00" * 60 + b"?"


def solve(xs):
    while True:
        _host.call(b"M" + FORM)
        _host.call(b"N")
