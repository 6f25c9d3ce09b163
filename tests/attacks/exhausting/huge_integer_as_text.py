# Turns a large integer into digits, in time quadratic in them.
# verdict: timeout

import sys

sys.set_int_max_str_digits(0)


def solve(xs):
    return len(str(3 ** 20_000_000))
