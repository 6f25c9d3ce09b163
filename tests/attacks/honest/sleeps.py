# Asks a clock that a test has stopped.
# verdict: correct
# task: slept

import time


def solve(n):
    before = time.time()
    time.sleep(n)
    return -before + time.time()
