# Sleeps for years.
# verdict: incorrect timeout

import time


def solve(xs):
    for _ in range(10):
        time.sleep(10**8)
    return None
