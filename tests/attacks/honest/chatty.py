# Prints a great deal, to both streams.
# verdict: correct

import sys


def solve(xs):
    print("xs:", xs, "{'verdict': 'incorrect'}")
    print("E" * 200_000, file=sys.stderr)
    return sorted(x * x for x in xs if x % 2 == 0)
