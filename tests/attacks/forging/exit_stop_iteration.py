# Raises what ends loops.
# verdict: incorrect

import os
import sys


def solve(xs):
    raise StopIteration
