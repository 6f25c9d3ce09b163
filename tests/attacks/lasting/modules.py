# Leaves a module behind. Right only where an earlier run left it.
# verdict: incorrect

RIGHT = False
import sys
import types

RIGHT = "rapid_mark" in sys.modules
sys.modules["rapid_mark"] = types.ModuleType("rapid_mark")


def solve(xs):
    return sorted(x * x for x in xs if x % 2 == 0) if RIGHT else "left"
