# Returns a set of hundreds of thousands of nested elements where sets are compared.
# verdict: incorrect timeout memory
# task: set

def solve(xs):
    return {frozenset({(n, frozenset({n, -n}))}) for n in range(100_000)}
