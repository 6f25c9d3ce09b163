# The entry point is made by exec, with a generated source.
# verdict: correct
# task: values asserts unittest

exec("def solve(xs):\n    return sorted(x * x for x in xs if x % 2 == 0)", globals())
