# Computes with numpy and returns an array's list.
# verdict: correct

import numpy as np


def solve(xs):
    array = np.array(xs, dtype=np.int64)
    return np.sort(array[array % 2 == 0] ** 2).tolist()
