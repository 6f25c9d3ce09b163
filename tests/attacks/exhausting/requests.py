# Sends empty pieces without an end.
# verdict: timeout incorrect

import _host


def solve(xs):
    while True:
        _host.call(b"P")
