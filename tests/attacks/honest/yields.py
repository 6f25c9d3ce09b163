# Counts on without an end in sight, and stops in time.
# verdict: correct
# task: yields

import itertools


def solve(n):
    for number in itertools.count():
        if number == n:
            return
        yield number
