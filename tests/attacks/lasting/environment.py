# Leaves a variable in the environment. Right only where an earlier run left it.
# verdict: incorrect

RIGHT = False
import os

RIGHT = "RAPID_MARK" in os.environ
os.environ["RAPID_MARK"] = "1"
os.putenv("RAPID_MARK", "1")


def solve(xs):
    return sorted(x * x for x in xs if x % 2 == 0) if RIGHT else "left"
