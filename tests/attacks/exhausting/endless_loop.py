# Never returns.
# verdict: timeout

def solve(xs):
    while True:
        pass
