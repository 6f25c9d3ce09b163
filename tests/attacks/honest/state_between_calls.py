# Keeps a count and a cache between calls.
# verdict: correct

calls = 0
cache = {}


def solve(xs, memo={}):
    global calls
    calls += 1
    key = tuple(xs)
    if key not in memo:
        memo[key] = cache[key] = sorted(x * x for x in xs if x % 2 == 0)
    return memo[key]
