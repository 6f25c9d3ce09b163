# Doubles by shifting, whatever the size.
# verdict: correct
# task: loop pytest

def solve(n):
    return n << 1
