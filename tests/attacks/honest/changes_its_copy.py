# Sorts and empties a copy of its argument, and deletes its own helper.
# verdict: correct

def helper(x):
    return x * x


square = helper
del helper


def solve(xs):
    xs, result = list(xs), []
    xs.sort(key=abs)
    while xs:
        x = xs.pop(0)
        if x % 2 == 0:
            result.append(square(x))
    return result
