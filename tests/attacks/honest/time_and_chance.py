# Asks for the time, sleeps, shuffles and collects garbage.
# verdict: correct

import gc
import random
import time


def solve(xs):
    start = time.time()
    time.sleep(0.01)
    xs = list(xs)
    random.shuffle(xs)
    gc.collect()
    assert time.time() > start
    return sorted(x * x for x in xs if x % 2 == 0)
