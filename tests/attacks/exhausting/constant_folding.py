# Constants that a compiler might compute.
# verdict: incorrect timeout memory

def solve(xs):
    for source in ("'x' * 10**9", "(1,) * 10**9", "1 << 10**10", "2 ** 2 ** 2 ** 2 ** 2 ** 2", "'%0999999999d' % 1"):
        compile(source, "bomb", "eval")
    return None
