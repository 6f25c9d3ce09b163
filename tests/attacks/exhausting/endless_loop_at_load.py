# Never finishes loading.
# verdict: timeout

while True:
    pass


def solve(xs):
    return []
