# Changes its own code object and namespace while it is called.
# verdict: incorrect

def other(xs):
    return [4]


def solve(xs):
    globals()["solve"] = other
    solve.__code__ = other.__code__
    return None
