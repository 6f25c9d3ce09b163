# The entry point is a partial application.
# verdict: correct

from functools import partial


def squares(parity, xs):
    return sorted(x * x for x in xs if x % 2 == parity)


solve = partial(squares, 0)
