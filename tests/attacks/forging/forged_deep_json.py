# Sends a value nested beyond what JSON readers take.
# verdict: incorrect

import _host


def solve(xs):
    _host.call(b"V" + b"[" * 5000 + b"")
    return [4]
