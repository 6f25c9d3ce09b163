import collections, dataclasses, enum, numpy, typing
class Named(typing.NamedTuple):
    x: int
    y: str = 'z'
class Colour(enum.Enum): RED = 'r'
class Node:
    __slots__ = ('value', 'next')
    def __init__(self, value, after): self.value, self.next = value, after
@dataclasses.dataclass
class Own:
    x: int = 1
    @property
    def size(self): return 9
    def __eq__(self, other): return True
    def __bool__(self): return False
    __lt__ = __contains__ = __eq__
    def __len__(self): return 3
    def __call__(self): return 1
    def __repr__(self): return 'lie'
def nodes():
    last = None
    for n in range(3000): last = Node(n, last)
    return last
MADE = {'array': lambda: numpy.arange(6).reshape(2, 3), 'floats': lambda: numpy.array([1.5, 2]), 'counter': lambda: collections.Counter('aab'),
    'default': lambda: collections.defaultdict(list), 'named': lambda: Named(1), 'colour': lambda: Colour.RED, 'nodes': nodes, 'own': Own,
    'shape': lambda x: x.shape, 'most': lambda x: x.most_common(1), 'sum': lambda p: p.x + p.y, 'double': lambda x: x.__imul__(2)}
def f(kind, *arguments): return MADE[kind](*arguments)
