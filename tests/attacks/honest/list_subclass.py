# Returns a list of a class of its own.
# verdict: correct

class Stack(list):
    def pop_all(self):
        while self:
            yield self.pop()


def solve(xs):
    return Stack(sorted(x * x for x in xs if x % 2 == 0))
