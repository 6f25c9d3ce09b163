# Computes with fractions and returns a float.
# verdict: correct
# task: mean

from fractions import Fraction


def solve(xs):
    return float(sum(map(Fraction, xs)) / len(xs))
