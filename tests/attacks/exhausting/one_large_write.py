# Writes 200 MB at once.
# verdict: incorrect memory timeout

def solve(xs):
    print("x" * 200_000_000)
    return None
