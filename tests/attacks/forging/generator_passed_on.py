# Returns a generator where it will be passed back, which cannot be sent: the program's own doing, not the task's.
# verdict: incorrect
# task: round-trip

def solve(s):
    return (character for character in reversed(list(s)))
