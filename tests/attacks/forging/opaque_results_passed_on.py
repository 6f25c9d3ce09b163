# Returns an object without an encoding, which tests cannot pass on: the task would seem to be at fault.
# verdict: incorrect
# task: round-trip

class Text:
    pass


def solve(s):
    return Text()
