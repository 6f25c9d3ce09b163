# Returns after it has made a list of an endless iterator.
# verdict: memory timeout

import itertools


def solve(xs):
    return list(itertools.count())
