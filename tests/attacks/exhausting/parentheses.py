# A source of deeply nested parentheses.
# verdict: incorrect

source = "(" * 100_000 + ")" * 100_000
try:
    eval(source)
except (SyntaxError, MemoryError, RecursionError):
    pass


def solve(xs):
    return eval("[" * 5_000 + "]" * 5_000)
