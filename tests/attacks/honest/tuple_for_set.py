# Returns a tuple with repetitions where sets are compared.
# verdict: correct
# task: set

def solve(xs):
    return tuple(xs) * 2
