# The entry point is an object that can be called.
# verdict: correct

class Solver:
    def __call__(self, xs):
        return sorted(x * x for x in xs if x % 2 == 0)


solve = Solver()
