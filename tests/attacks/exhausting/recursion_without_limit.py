# Raises the recursion limit and recurses without an end.
# verdict: incorrect memory timeout

import sys

sys.setrecursionlimit(2**31 - 1)


def solve(xs):
    return solve(xs) + [1]
