# Raises what a test raises.
# verdict: incorrect

import os
import sys


def solve(xs):
    raise AssertionError
