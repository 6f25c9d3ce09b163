# Leaves its argument as it was, which a test finds out that does not mention it.
# verdict: incorrect
# task: statements

def solve(xs):
    pass
