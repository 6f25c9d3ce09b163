# Writes 200 MB at once.
# verdict: incorrect memory

def solve(xs):
    print("x" * 200_000_000)
    return None
