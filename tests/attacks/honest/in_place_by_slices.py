# Sorts in place by assigning to a slice.
# verdict: correct
# task: in-place

def solve(xs):
    xs[:] = sorted(xs)
