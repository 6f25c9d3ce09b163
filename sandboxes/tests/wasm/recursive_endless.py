# Endless recursion in C code, which a raised recursion limit does not end.

## map
def f(): return list(map(lambda x: f(), [1]))

## sum
def f(): return sum(f() for _ in [1])

## sorted
def f(): return sorted([1], key=lambda x: f())

## reduce
import functools
def f(): return functools.reduce(lambda a, b: f(), [1, 2])

## lru_cache
import functools
@functools.lru_cache(None)
def g(n): return g(n + 1)
def f(): return g(0)

## partial
import functools
def f(): return functools.partial(f)()

## __init__
class A:
    def __init__(self): A()
def f(): return A()

## __getattr__
class A:
    def __getattr__(self, name): return getattr(self, name + 'x')
def f(): return A().b

## __getattribute__
class A:
    def __getattribute__(self, name): return self.x
def f(): return A().b

## __repr__
class A:
    def __repr__(self): return repr([self])
def f(): return repr(A())

## __str__
class A:
    def __str__(self): return f'{self}'
def f(): return str(A())

## __eq__
class A:
    def __eq__(self, other): return [A()] == [A()]
def f(): return A() == 1

## __hash__
class A:
    def __hash__(self): return hash((self,))
def f(): return hash(A())

## __bool__
class A:
    def __bool__(self): return not self
def f(): return bool(A())

## __call__
class A: pass
A.__call__ = A()
def f(): return A()()

## __instancecheck__
class M(type):
    def __instancecheck__(cls, x): return isinstance(x, (cls,))
class A(metaclass=M): pass
def f(): return isinstance(1, A)

## __index__
class A:
    def __index__(self): return [1][self]
def f(): return [1][A()]

## __iter__
class A:
    def __iter__(self): return iter(self)
def f(): return list(A())

## __del__
class A:
    def __del__(self): A()
def f(): A(); return 1

## __format__
class A:
    def __format__(self, spec): return format(self, spec)
def f(): return format(A())

## comparison
class A:
    def __lt__(self, other): return (A(),) < (A(),)
    __gt__ = __eq__ = __lt__
def f(): return A() < A()

## repr of lists
def f():
    x = []
    for _ in range(300000): x = [x]
    return len(repr(x))

## comparison of lists
def f():
    x, y = [], []
    for _ in range(300000): x, y = [x], [y]
    return x == y

## hash of tuples
def f():
    x = ()
    for _ in range(300000): x = (x,)
    return hash(x)

## deep copy
import copy
def f():
    x = []
    for _ in range(300000): x = [x]
    return copy.deepcopy(x)

## pickle
import pickle
def f():
    x = []
    for _ in range(300000): x = [x]
    return len(pickle.dumps(x))

## marshal
import marshal
def f():
    x = []
    for _ in range(300000): x = [x]
    return len(marshal.dumps(x))

## json.dumps
import json
def f():
    x = []
    for _ in range(300000): x = [x]
    return len(json.dumps(x))

## json.loads
import json
def f(): return json.loads('[' * 300000)

## json.loads of objects
import json
def f(): return json.loads('{"a":' * 300000)

## re
import re
def f(): return re.compile('(' * 300000 + ')' * 300000)

## re of nested repeats
import re
def f(): return re.match('(?:' * 3000 + 'a' + ')*' * 3000, 'a' * 1000) is None

## ast.parse of unary operators
import ast
def f(): return ast.parse('-' * 300000 + '1')

## ast.parse of additions
import ast
def f(): return ast.parse('1' + '+1' * 300000)

## ast.parse of attributes
import ast
def f(): return ast.parse('a' + '.a' * 300000)

## ast.literal_eval
import ast
def f(): return ast.literal_eval('-' * 100000 + '1')

## compile of a deep tree
import ast
def f():
    x = ast.Constant(1)
    for _ in range(300000): x = ast.UnaryOp(ast.USub(), x)
    return compile(ast.fix_missing_locations(ast.Expression(x)), '', 'eval')

## compile of blocks
def f(): return compile('\n'.join(' ' * i + 'if 1:' for i in range(99)) + ' pass', '', 'exec')

## compile of comparisons
def f(): return compile('[' * 190 + ']' * 190, '', 'eval') and compile('x' + '[x]' * 300000, '', 'eval')

## deallocation of objects
class A: pass
def f():
    x = None
    for _ in range(500000):
        y = A(); y.x = x; x = y
    del x, y
    return 1

## deallocation of generators
def g(x):
    yield x
def f():
    x = None
    for _ in range(300000):
        x = g(x); next(x)
    del x
    return 1

## deallocation of maps
def f():
    x = iter([])
    for _ in range(300000): x = map(int, x)
    del x
    return 1

## next of filters
def f():
    x = iter([1])
    for _ in range(300000): x = filter(None, x)
    return next(x)

## isinstance of tuples
def f():
    x = (int,)
    for _ in range(300000): x = (x,)
    return isinstance('', x)

## partial of partial
import functools
def f():
    x = int
    for _ in range(300000):
        y = functools.partial(int); y.__setstate__((x, (), {}, {})); x = y
    return x()

## methods of methods
import types
def f():
    x = len
    for _ in range(300000): x = types.MethodType(x, 1)
    return x()

## exceptions in a chain
def f():
    e = None
    for _ in range(300000):
        new = ValueError(); new.__context__ = e; e = new
    raise e

## union types
def f():
    x = int
    for _ in range(300000): x = list[x]
    return repr(x)

## classes
def f():
    x = object
    for _ in range(30000): x = type('A', (x,), {})
    return 1

## weak references
import weakref
class A: pass
def f():
    def back(_): f()
    x = A(); r = weakref.ref(x, back); del x
    return 1

## gc
import gc
class A:
    def __del__(self): x = A(); x.x = x; del x; gc.collect()
def f():
    x = A(); x.x = x; del x
    return gc.collect()

## sorted in a comparison
class A:
    def __lt__(self, other): return sorted([A(), A()])
def f(): return sorted([A(), A()])

## numpy
import numpy
class A:
    def __array__(self, *a, **k): return numpy.array(self)
def f(): return numpy.array(A())

## numpy of lists
import numpy
def f():
    x = []
    for _ in range(300000): x = [x]
    return numpy.array(x, dtype=object).shape

## numpy of objects
import numpy
class A:
    def __add__(self, other): return (numpy.array([A()], dtype=object) + 1)[0]
def f(): return A() + 1

## xml
import xml.etree.ElementTree as E
def f(): return len(E.tostring(E.fromstring('<a>' * 100000 + '</a>' * 100000)))

## decimal
import decimal
class A(decimal.Decimal):
    def __add__(self, other): return A(1) + A(1)
def f(): return sum([A(1), A(2)])

## str.join
def f(): return ''.join(f() for _ in [1])

## __missing__
class D(dict):
    def __missing__(self, key): return self[key]
def f(): return D()[1]

## __set_name__
class N:
    def __set_name__(self, owner, name): type('B', (), {'x': N()})
def f(): return type('B', (), {'x': N()})

## import hooks
import sys
class H:
    def find_spec(self, name, *rest): return __import__(name + 'x')
def f():
    sys.meta_path.insert(0, H())
    import nothing

## exec
def f(): exec('f()', {'f': f})

## audit of attributes
class A:
    def __setattr__(self, name, value): self.x = value
def f(): A().x = 1

## str.translate
class A(dict):
    def __getitem__(self, key): return 'x'.translate(self)
def f(): return 'x'.translate(A())

## callback of re.sub
import re
def f(): return re.sub('x', lambda m: f(), 'x')

## struct sequence of datetime
import datetime
class Z(datetime.tzinfo):
    def utcoffset(self, t): return t.utcoffset()
def f(): return datetime.datetime(2020, 1, 1, tzinfo=Z()).utcoffset()

## codecs
import codecs
def h(e): return ('x\u20ac'.encode('ascii', 'mine').decode(), e.end)
def f():
    codecs.register_error('mine', h)
    return '\u20ac'.encode('ascii', 'mine')
