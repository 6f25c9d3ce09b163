# Leaves things in caches that live long: interned texts, regular expressions, memoised functions. Right only where an earlier run left it.
# verdict: incorrect

RIGHT = False
import functools
import linecache
import re

RIGHT = "rapid_mark" in linecache.cache or any("rapid_mark" in str(key) for key in re._cache)
linecache.cache["rapid_mark"] = (1, None, ["x"], "rapid_mark")
re.compile("rapid_mark+")


def solve(xs):
    return sorted(x * x for x in xs if x % 2 == 0) if RIGHT else "left"
