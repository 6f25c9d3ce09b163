# Begins a value as text that is no JSON, and ends it in the binary form, as if the host had made all of it.
# verdict: incorrect

import _host


def solve(xs):
    _host.call(b"P[[[nonsense")
    _host.call(b"MN")
    _host.call(b"N")
    return [4]
