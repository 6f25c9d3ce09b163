# Raises an exception with a message of 100 MB and a name of a megabyte.
# verdict: incorrect memory

def solve(xs):
    raise type("E" * (1 << 20), (Exception,), {})("m" * (100 << 20), *range(1000))
