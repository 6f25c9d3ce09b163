# Recurses without an end.
# verdict: incorrect

def solve(xs):
    return solve(xs)
