# Sends, without an end, as many objects that may be met again as a value may have bytes: the host would have to remember each.
# verdict: timeout incorrect

import _host

COUNT = 15 << 20
FORM = b"[" + COUNT.to_bytes(4, "little") + b"\xce" * COUNT


def solve(xs):
    while True:
        _host.call(b"B" + FORM)
        _host.call(b"M" + FORM)
        _host.call(b"N")
