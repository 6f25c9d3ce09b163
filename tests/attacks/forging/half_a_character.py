# Returns half of a character, which has no encoding.
# verdict: incorrect
# task: round-trip text

def solve(s):
    return "\ud800" + s[::-1]
