# Returns dicts that share their values.
# verdict: timeout incorrect

def solve(xs):
    value = {"a": 1}
    for _ in range(25):
        value = {"a": value, "b": value, 1: value}
    return value
