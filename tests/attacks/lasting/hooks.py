# Leaves hooks behind for exceptions, display and exit. Right only where an earlier run left it.
# verdict: incorrect

RIGHT = False
import atexit
import sys

RIGHT = sys.displayhook is print or atexit._ncallbacks() > 50
sys.displayhook = sys.excepthook = print
for _ in range(60):
    atexit.register(print)


def solve(xs):
    return sorted(x * x for x in xs if x % 2 == 0) if RIGHT else "left"
