# Waits for a lock that it holds itself.
# verdict: incorrect timeout

import queue
import threading


def solve(xs):
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=100_000)
    try:
        queue.Queue().get(timeout=100_000)
    except queue.Empty:
        pass
    return None
