# Raises GeneratorExit, which catch-alls let through.
# verdict: incorrect

import os
import sys


def solve(xs):
    raise GeneratorExit
