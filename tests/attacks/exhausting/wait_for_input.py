# Waits for input that never comes.
# verdict: incorrect timeout

import sys


def solve(xs):
    try:
        return input()
    except EOFError:
        return sys.stdin.read()
