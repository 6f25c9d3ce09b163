# The entry point is a bound method.
# verdict: correct

class Solver:
    def squares(self, xs):
        return sorted(x * x for x in xs if x % 2 == 0)


solve = Solver().squares
