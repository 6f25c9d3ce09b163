# Drops a structure a million levels deep, which is freed by recursion.
# verdict: incorrect

def solve(xs):
    for wrap in (lambda x: [x], lambda x: (x,), lambda x: {1: x}, lambda x: iter([x]), lambda x: lambda: x):
        deep = None
        for _ in range(10_000):
            deep = wrap(deep)
        del deep
    return None
