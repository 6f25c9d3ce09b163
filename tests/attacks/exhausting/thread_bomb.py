# Starts threads without an end.
# verdict: timeout incorrect memory

import threading


def solve(xs):
    try:
        while True:
            threading.Thread(target=threading.Event().wait).start()
    except RuntimeError:
        return None
