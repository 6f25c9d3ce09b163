# Objects that come back each time they are destroyed.
# verdict: incorrect timeout memory

class Phoenix:
    def __del__(self):
        Phoenix()


def solve(xs):
    Phoenix()
    return None
