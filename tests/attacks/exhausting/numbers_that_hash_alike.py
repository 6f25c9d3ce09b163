# Returns numbers that collide in Python's hash tables.
# verdict: incorrect timeout
# task: set values

def solve(xs):
    return [n * (2**61 - 1) for n in range(20_000)]
