# Writes to standard error and raises, without an end.
# verdict: timeout

import sys


def solve(xs):
    while True:
        sys.stderr.write("x" * 1_000_000)
