# Sends an exception of a form that the harness never sends.
# verdict: incorrect

import _host


def solve(xs):
    _host.call(b"E[1,2,3]")
    return [4]
