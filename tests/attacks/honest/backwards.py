# Text backwards, through bytes.
# verdict: correct
# task: round-trip

def solve(s):
    return "".join(reversed(s.encode("utf-16-le").decode("utf-16-le")))
