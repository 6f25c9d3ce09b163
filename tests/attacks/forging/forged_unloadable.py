# Says in mid-call that it could not be loaded.
# verdict: incorrect

import _host


def solve(xs):
    _host.call(b"U[\"SystemError\",\"the sandbox is broken\"]")
    return [4]
