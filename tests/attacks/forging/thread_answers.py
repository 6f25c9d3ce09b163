# A thread answers beside the call.
# verdict: incorrect

import threading

import _host


def answer():
    for _ in range(50):
        _host.call(b"V[4]")
        _host.call(b"N")


def solve(xs):
    try:
        threading.Thread(target=answer, daemon=True).start()
    except RuntimeError:
        pass
    return None
