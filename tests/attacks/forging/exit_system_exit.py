# Raises SystemExit in a call.
# verdict: incorrect

import os
import sys


def solve(xs):
    raise SystemExit(0)
