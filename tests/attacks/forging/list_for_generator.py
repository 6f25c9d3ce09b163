# Returns a list where a generator was asked for, which has the same elements.
# verdict: incorrect
# task: yields

def solve(n):
    return list(range(n))
