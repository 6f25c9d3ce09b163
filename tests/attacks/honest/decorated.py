# A decorated function with a cache, which needs arguments that can be hashed.
# verdict: correct

import functools


def tupled(function):
    @functools.wraps(function)
    def wrapper(xs):
        return list(function(tuple(xs)))

    return wrapper


@tupled
@functools.lru_cache(maxsize=None)
def solve(xs):
    return tuple(sorted(x * x for x in xs if x % 2 == 0))
