# An object of a data class of its own.
# verdict: correct
# task: fields

import dataclasses


@dataclasses.dataclass(slots=True)
class Pair:
    x: object
    y: object


def solve(x, y):
    return Pair(x, y)
