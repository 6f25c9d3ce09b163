# An array with a shape.
# verdict: correct
# task: array

import numpy


def solve(rows, columns):
    return numpy.array([[r * columns + c for c in range(columns)] for r in range(rows)])
