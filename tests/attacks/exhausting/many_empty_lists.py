# Returns millions of empty lists.
# verdict: incorrect timeout memory

EMPTY = []


def solve(xs):
    return [EMPTY] * 3_000_000
