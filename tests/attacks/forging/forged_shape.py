# Answers with a value where a value and the arguments are expected, and the other way round.
# verdict: incorrect

import _host

count = 0


def solve(xs):
    global count
    count += 1
    _host.call([b"V[[4],[4],[4]]", b'V{"a":1,"b":2}', b"V[[4],null]", b"V7", b'V[[4],[{"$tuple":1},2]]'][count % 5])
