# Returns millions of elements, each of which costs the host much more than its one byte.
# verdict: incorrect timeout memory

def solve(xs):
    return [0] * 7_000_000
