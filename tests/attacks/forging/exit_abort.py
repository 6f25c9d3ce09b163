# Aborts in a call.
# verdict: incorrect

import os
import sys


def solve(xs):
    os.abort()
