# Keeps everything and forgets every error.
# verdict: memory timeout

hoard = []


def solve(xs):
    while True:
        try:
            hoard.append([*range(100_000)])
        except BaseException:
            pass
