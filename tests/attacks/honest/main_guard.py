# Has a main part that asks for input and leaves.
# verdict: correct

import sys


def solve(xs):
    return sorted(x * x for x in xs if x % 2 == 0)


if __name__ == "__main__":
    print(solve([int(x) for x in input().split()]))
    sys.exit(1)
