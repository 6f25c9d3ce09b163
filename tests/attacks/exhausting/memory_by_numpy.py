# Makes an array beyond all memory, and a small one that claims to be large.
# verdict: memory incorrect

import numpy


def solve(xs):
    try:
        numpy.ones((1 << 20, 1 << 10))
    except MemoryError:
        pass
    return numpy.broadcast_to(numpy.int8(1), (1 << 30,))
