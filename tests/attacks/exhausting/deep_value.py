# Returns a list a hundred thousand levels deep.
# verdict: incorrect

def solve(xs):
    value = []
    for _ in range(100_000):
        value = [value]
    return value
