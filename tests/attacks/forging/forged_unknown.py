# Sends a request that does not exist.
# verdict: incorrect

import _host


def solve(xs):
    _host.call(b"?")
    return [4]
