# Raises an exception of its own where a ValueError is asked for.
# verdict: correct
# task: raises

class Negative(ValueError):
    pass


def solve(n):
    if n < 0:
        raise ValueError(f"{n} is negative") from Negative()
    return n**0.5
