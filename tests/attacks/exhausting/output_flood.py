# Writes to standard output without an end.
# verdict: timeout

def solve(xs):
    while True:
        print("x" * 10_000)
