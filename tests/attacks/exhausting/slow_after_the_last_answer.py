# Answers wrongly, then never gives the turn back.
# verdict: timeout incorrect

import _host


def solve(xs):
    _host.call(b"V[[4],null]")
    while True:
        pass
