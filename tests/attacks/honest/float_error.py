# Computes a mean with an error in the last digits.
# verdict: correct
# task: mean

def solve(xs):
    return sum(x / len(xs) for x in xs)
