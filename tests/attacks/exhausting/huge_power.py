# Computes an integer of a hundred million digits.
# verdict: timeout memory

def solve(xs):
    return 7 ** 10 ** 8
