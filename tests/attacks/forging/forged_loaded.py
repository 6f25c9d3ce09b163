# Says a second time that it is loaded.
# verdict: incorrect

import _host


def solve(xs):
    _host.call(b"L")
    return [4]
