# Returns 15 MB for each call, so that a host that keeps all of them fills up.
# verdict: incorrect timeout memory

TEXT = "y" * (15 << 20)


def solve(xs):
    return TEXT
