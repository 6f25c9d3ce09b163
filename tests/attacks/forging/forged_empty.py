# Sends an empty request.
# verdict: incorrect

import _host


def solve(xs):
    _host.call(b"")
    return [4]
