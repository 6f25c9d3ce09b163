# A regular expression that backtracks without an end.
# verdict: timeout

import re


def solve(xs):
    return re.match(r"(a+)+$", "a" * 60 + "b")
