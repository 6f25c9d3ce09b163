# Recurses tens of thousands of levels, having asked for it.
# verdict: correct

import sys

sys.setrecursionlimit(100_000)


def count(n):
    return 0 if n == 0 else 1 + count(n - 1)


def solve(xs):
    assert count(20_000) == 20_000
    return sorted(x * x for x in xs if x % 2 == 0)
