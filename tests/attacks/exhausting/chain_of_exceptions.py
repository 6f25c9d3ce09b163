# Raises an exception with a hundred thousand causes.
# verdict: incorrect timeout

def solve(xs):
    error = None
    for n in range(100_000):
        try:
            raise ValueError(n) from error
        except ValueError as caught:
            error = caught
    raise error
