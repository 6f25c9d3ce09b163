# Recurses through C functions, where the interpreter's own count does not help.
# verdict: incorrect memory timeout

import sys

sys.setrecursionlimit(2**31 - 1)


class Deep:
    def __getattr__(self, name):
        return getattr(self, name + "x")

    def __eq__(self, other):
        return self == other

    def __repr__(self):
        return repr([self])


def solve(xs):
    for way in (lambda: repr(Deep()), lambda: Deep() == 1, lambda: Deep().x, lambda: sorted([xs], key=solve)):
        try:
            way()
        except RecursionError:
            pass
    return None
