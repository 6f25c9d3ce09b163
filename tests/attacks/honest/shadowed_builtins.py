# Shadows builtins with names of its own.
# verdict: correct

list = [].__class__
id, type, input, max = 1, 2, 3, 4


def len(sum):
    return sum * sum


def solve(xs):
    return sorted(list(len(str) for str in xs if str % 2 == 0))
