# As StopIteration, by a class of its own with that name.
# verdict: incorrect
# task: loop

class StopIteration(StopIteration):
    pass


def solve(n):
    raise StopIteration(2 * n + 1)
