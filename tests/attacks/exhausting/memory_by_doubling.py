# Doubles a list until there is no more memory.
# verdict: memory incorrect

def solve(xs):
    xs = [0]
    while True:
        xs += xs
