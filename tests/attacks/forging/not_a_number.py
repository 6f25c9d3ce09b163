# Returns not a number, which compares with nothing.
# verdict: incorrect
# task: mean values asserts

def solve(xs):
    return float("nan")
