# Changes the working folder. Right only where an earlier run left it.
# verdict: incorrect

RIGHT = False
import os

RIGHT = os.getcwd().endswith("lib")
try:
    os.chdir("/usr/local/lib")
except OSError:
    pass


def solve(xs):
    return sorted(x * x for x in xs if x % 2 == 0) if RIGHT else "left"
