# Changes the interpreter's limits. Right only where an earlier run left it.
# verdict: incorrect

RIGHT = False
import sys

RIGHT = sys.getrecursionlimit() == 54321
sys.setrecursionlimit(54321)
sys.set_int_max_str_digits(0)
sys.setswitchinterval(100)


def solve(xs):
    return sorted(x * x for x in xs if x % 2 == 0) if RIGHT else "left"
