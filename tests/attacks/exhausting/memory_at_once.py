# Asks for more memory than there is, and carries on where it is refused.
# verdict: memory incorrect

def solve(xs):
    try:
        return len(bytearray(3 << 30))
    except MemoryError:
        return []
