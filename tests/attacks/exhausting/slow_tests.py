# Returns what makes the tests' own code slow.
# verdict: incorrect timeout memory

def solve(xs):
    return [{"key": list(range(100))} for _ in range(20_000)]
