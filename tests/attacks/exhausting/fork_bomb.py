# Forks without an end.
# verdict: timeout incorrect

import os


def solve(xs):
    while True:
        try:
            os.fork()
        except (OSError, AttributeError):
            return None
