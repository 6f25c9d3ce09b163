# Makes the arguments large, which tests get back.
# verdict: incorrect timeout memory

def solve(xs):
    xs.extend(range(2_000_000))
    return xs
