# Returns texts of 64 MB.
# verdict: incorrect timeout memory

def solve(xs):
    return "x" * (64 << 20)
