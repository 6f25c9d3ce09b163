# Returns values that hold themselves.
# verdict: incorrect

def solve(xs):
    value = [1]
    value.append(value)
    loop = {"self": value, "tuple": (value,)}
    loop["loop"] = loop
    return loop
