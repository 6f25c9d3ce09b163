# An exception that calls itself by another name, and whose text raises.
# verdict: incorrect
# task: raises loop asserts values

class Meta(type):
    @property
    def __name__(cls):
        raise SystemExit(0)


class Wrong(ValueError, metaclass=Meta):
    def __str__(self):
        raise SystemExit(0)

    __repr__ = __str__

    @property
    def args(self):
        raise SystemExit(0)


Wrong.__qualname__ = "AssertionError"


def solve(n):
    raise Wrong(b"\xff", object())
