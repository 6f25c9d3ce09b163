# Programs whose `f(n)` recurses to the depth `n` and returns it, each in a different way.

## map
def f(n): return 1 + sum(map(f, [n - 1])) if n else 0

## filter
def g(n): return not n or bool(list(filter(g, [n - 1])))
def f(n): return n if g(n) else -1

## sum over a generator
def f(n): return 1 + sum(f(m) for m in [n - 1]) if n else 0

## any over a generator
def g(n): return not n or any(g(m) for m in [n - 1])
def f(n): return n if g(n) else -1

## sorted with a key
def f(n):
    if n: sorted([n - 1], key=f)
    return n

## min with a key
def f(n): return 1 + min([n - 1], key=f) if n else 0

## max of a map
def f(n): return max(map(lambda m: 1 + f(m), [n - 1])) if n else 0

## cached methods
import functools
class A:
    @functools.cache
    def depth(self, n): return 1 + self.depth(n - 1) if n else 0
def f(n): return A().depth(n)

## lru_cache
import functools
@functools.lru_cache(None)
def f(n): return 1 + f(n - 1) if n else 0

## functools.reduce
import functools
def f(n): return functools.reduce(lambda a, b: a + f(b), [1, n - 1]) if n else 0

## functools.partial
import functools
def f(n): return 1 + functools.partial(f, n - 1)() if n else 0

## __init__
class A:
    def __init__(self, n): self.n = 1 + A(n - 1).n if n else 0
def f(n): return A(n).n

## __getattr__
class A:
    def __init__(self, n): self.n = n
    def __getattr__(self, name): return 1 + A(self.n - 1).depth if self.n else 0
def f(n): return A(n).depth

## property
class A:
    def __init__(self, n): self.n = n
    @property
    def depth(self): return 1 + A(self.n - 1).depth if self.n else 0
def f(n): return A(n).depth

## __eq__ of lists
class A:
    def __init__(self, n): self.n = n
    def __eq__(self, other): return not self.n or [A(self.n - 1)] == [A(other.n - 1)]
def f(n): return n if A(n) == A(n) else -1

## __lt__ of tuples
class A:
    def __init__(self, n): self.n = n
    def __eq__(self, other): return False
    def __lt__(self, other): return not self.n or (A(self.n - 1),) < (A(other.n - 1),)
def f(n): return n if A(n) < A(n) else -1

## __hash__ of tuples
class A:
    def __init__(self, n): self.n = n
    def __hash__(self): return hash((A(self.n - 1),)) if self.n else 0
def f(n): return n if hash(A(n)) is not None else -1

## __repr__ of lists
class A:
    def __init__(self, n): self.n = n
    def __repr__(self): return repr([A(self.n - 1)]) if self.n else ''
def f(n): return len(repr(A(n))) // 2

## __add__
class A:
    def __init__(self, n): self.n = n
    def __add__(self, other): return 1 + (A(self.n - 1) + other) if self.n else 0
def f(n): return A(n) + 1

## __getitem__
class A:
    def __getitem__(self, n): return 1 + A()[n - 1] if n else 0
def f(n): return A()[n]

## list comprehension
def f(n): return 1 + [f(m) for m in [n - 1]][0] if n else 0

## dict comprehension
def f(n): return 1 + {m: f(m) for m in [n - 1]}[n - 1] if n else 0

## callback of re.sub
import re
def f(n): return 1 + int(re.sub('x', lambda m: str(f(n - 1)), 'x')) if n else 0

## str.join over a generator
def g(n): return 'x' + ''.join(g(m) for m in [n - 1]) if n else ''
def f(n): return len(g(n))

## itertools.chain
import itertools
def g(n): return itertools.chain([n], *map(g, [n - 1])) if n else []
def f(n): return len(list(g(n)))

## itertools.accumulate
import itertools
def f(n): return [*itertools.accumulate([1, n - 1], lambda a, b: a + f(b))][1] if n else 0

## yield from
def g(n):
    yield n
    if n: yield from g(n - 1)
def f(n): return sum(1 for _ in g(n)) - 1

## copy.deepcopy
import copy
def f(n):
    x = []
    for _ in range(n): x = [x]
    x, d = copy.deepcopy(x), 0
    while x: x, d = x[0], d + 1
    return d

## exec
def f(n): return 1 + eval('f(n - 1)', {'f': f, 'n': n}) if n else 0
