# Sends results in the interpreter's own binary form that it never writes: a list within itself, text that is none, a tag as a key, more elements than there are.
# verdict: incorrect

import _host

FORMS = [
    b"\xdb\x01\x00\x00\x00r\x00\x00\x00\x00",
    b"u\x02\x00\x00\x00\xff\xfe",
    b"{z\x06$tupleN0",
    b"[\xff\xff\xff\x7fi\x04\x00\x00\x00",
    b"r\xff\xff\xff\xff",
]


def solve(xs):
    for form in FORMS:
        _host.call(b"B" + form)
        _host.call(b"M" + form)
        if _host.call(b"N") == b"?":
            _host.call(b"B" + form)
    return [4]
