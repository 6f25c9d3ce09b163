# The entry point is a number, then a type, then a coroutine.
# verdict: incorrect

async def solve(xs):
    return sorted(x * x for x in xs if x % 2 == 0)
