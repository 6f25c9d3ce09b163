# Uses what is new in the language.
# verdict: correct

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Squares[T: int]:
    of: list[T]
    found: list[T] = field(default_factory=list)

    def run(self) -> list[T]:
        for x in self.of:
            match x % 2, x:
                case 0, int() as even if (square := even**2) >= 0:
                    self.found.append(square)
                case _:
                    continue
        return sorted(self.found)


def solve(xs: list[Undefined]) -> Undefined:
    return Squares(xs).run()
