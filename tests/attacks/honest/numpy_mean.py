# Returns numpy's own float.
# verdict: correct
# task: mean

import numpy as np


def solve(xs):
    return np.mean(np.array(xs))
