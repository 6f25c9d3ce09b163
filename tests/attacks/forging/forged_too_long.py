# Sends a request longer than any may be.
# verdict: incorrect memory

import _host


def solve(xs):
    _host.call(b"V" + bytes(100 << 20))
