# Changes the precision of decimal numbers, and the locale. Right only where an earlier run left it.
# verdict: incorrect

RIGHT = False
import decimal
import locale

RIGHT = decimal.getcontext().prec == 3
decimal.getcontext().prec = 3
decimal.DefaultContext.prec = 3
locale.setlocale(locale.LC_ALL, "C")


def solve(xs):
    return sorted(x * x for x in xs if x % 2 == 0) if RIGHT else "left"
