# Raises what ends asynchronous loops.
# verdict: incorrect

import os
import sys


def solve(xs):
    raise StopAsyncIteration
