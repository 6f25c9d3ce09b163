# Doubles a list until there is no more memory, or no fuel for the copies.
# verdict: memory incorrect timeout

def solve(xs):
    xs = [0]
    while True:
        xs += xs
