# Begins a value with bytes that are no text, and ends it in the binary form, as if the host had made all of it; a host that believed so would break over it.
# verdict: incorrect

import _host


def solve(xs):
    _host.call(b"P\xff")
    _host.call(b"MN")
    _host.call(b"N")
    return [4]
