# Returns booleans where something or None is asked for.
# verdict: correct
# task: not-none

def solve(s):
    return s[:1] in tuple("aeiou")
