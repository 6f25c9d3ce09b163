# Sends pieces of a value without an end.
# verdict: timeout incorrect

import _host


def solve(xs):
    while True:
        _host.call(b"P" + b"7" * 1_000_000)
