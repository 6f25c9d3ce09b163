# Sends a value that is no text.
# verdict: incorrect

import _host


def solve(xs):
    _host.call(b"V\"\xff\"")
    return [4]
