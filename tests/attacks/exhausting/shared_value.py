# Returns a value of 30 objects that would be a billion, written out.
# verdict: timeout incorrect

def solve(xs):
    value = []
    for _ in range(30):
        value = [value, value]
    return value
