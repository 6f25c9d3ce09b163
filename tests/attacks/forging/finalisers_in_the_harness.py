# Finalisers, weak references and gc callbacks answer while the harness works.
# verdict: incorrect

import gc
import weakref

import _host


class Thing:
    def __init__(self):
        self.me = self

    def __del__(self):
        try:
            _host.call(b"V[4]")
        except BaseException:
            pass


gc.set_threshold(1)
gc.callbacks.append(lambda *rest: _host.call(b"V[4]"))


def solve(xs):
    thing = Thing()
    weakref.finalize(thing, _host.call, b"N")
    return [[] for _ in range(1000)]
