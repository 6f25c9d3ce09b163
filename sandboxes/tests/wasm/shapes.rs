//! Programs that recurse, each in a different way.

/// Programs whose `f(n)` recurses to the depth `n` and returns it.
pub(crate) const SHAPES: &[(&str, &str)] = &[
    (
        "map",
        "def f(n): return 1 + sum(map(f, [n - 1])) if n else 0",
    ),
    (
        "filter",
        "def g(n): return not n or bool(list(filter(g, [n - 1])))\ndef f(n): return n if g(n) else -1",
    ),
    (
        "sum over a generator",
        "def f(n): return 1 + sum(f(m) for m in [n - 1]) if n else 0",
    ),
    (
        "any over a generator",
        "def g(n): return not n or any(g(m) for m in [n - 1])\ndef f(n): return n if g(n) else -1",
    ),
    (
        "sorted with a key",
        "def f(n):\n    if n: sorted([n - 1], key=f)\n    return n",
    ),
    (
        "min with a key",
        "def f(n): return 1 + min([n - 1], key=f) if n else 0",
    ),
    (
        "max of a map",
        "def f(n): return max(map(lambda m: 1 + f(m), [n - 1])) if n else 0",
    ),
    (
        "cached methods",
        "import functools\nclass A:\n    @functools.cache\n    def depth(self, n): return 1 + self.depth(n - 1) if n else 0\ndef f(n): return A().depth(n)",
    ),
    (
        "lru_cache",
        "import functools\n@functools.lru_cache(None)\ndef f(n): return 1 + f(n - 1) if n else 0",
    ),
    (
        "functools.reduce",
        "import functools\ndef f(n): return functools.reduce(lambda a, b: a + f(b), [1, n - 1]) if n else 0",
    ),
    (
        "functools.partial",
        "import functools\ndef f(n): return 1 + functools.partial(f, n - 1)() if n else 0",
    ),
    (
        "__init__",
        "class A:\n    def __init__(self, n): self.n = 1 + A(n - 1).n if n else 0\ndef f(n): return A(n).n",
    ),
    (
        "__getattr__",
        "class A:\n    def __init__(self, n): self.n = n\n    def __getattr__(self, name): return 1 + A(self.n - 1).depth if self.n else 0\ndef f(n): return A(n).depth",
    ),
    (
        "property",
        "class A:\n    def __init__(self, n): self.n = n\n    @property\n    def depth(self): return 1 + A(self.n - 1).depth if self.n else 0\ndef f(n): return A(n).depth",
    ),
    (
        "__eq__ of lists",
        "class A:\n    def __init__(self, n): self.n = n\n    def __eq__(self, other): return not self.n or [A(self.n - 1)] == [A(other.n - 1)]\ndef f(n): return n if A(n) == A(n) else -1",
    ),
    (
        "__lt__ of tuples",
        "class A:\n    def __init__(self, n): self.n = n\n    def __eq__(self, other): return False\n    def __lt__(self, other): return not self.n or (A(self.n - 1),) < (A(other.n - 1),)\ndef f(n): return n if A(n) < A(n) else -1",
    ),
    (
        "__hash__ of tuples",
        "class A:\n    def __init__(self, n): self.n = n\n    def __hash__(self): return hash((A(self.n - 1),)) if self.n else 0\ndef f(n): return n if hash(A(n)) is not None else -1",
    ),
    (
        "__repr__ of lists",
        "class A:\n    def __init__(self, n): self.n = n\n    def __repr__(self): return repr([A(self.n - 1)]) if self.n else ''\ndef f(n): return len(repr(A(n))) // 2",
    ),
    (
        "__add__",
        "class A:\n    def __init__(self, n): self.n = n\n    def __add__(self, other): return 1 + (A(self.n - 1) + other) if self.n else 0\ndef f(n): return A(n) + 1",
    ),
    (
        "__getitem__",
        "class A:\n    def __getitem__(self, n): return 1 + A()[n - 1] if n else 0\ndef f(n): return A()[n]",
    ),
    (
        "list comprehension",
        "def f(n): return 1 + [f(m) for m in [n - 1]][0] if n else 0",
    ),
    (
        "dict comprehension",
        "def f(n): return 1 + {m: f(m) for m in [n - 1]}[n - 1] if n else 0",
    ),
    (
        "callback of re.sub",
        "import re\ndef f(n): return 1 + int(re.sub('x', lambda m: str(f(n - 1)), 'x')) if n else 0",
    ),
    (
        "str.join over a generator",
        "def g(n): return 'x' + ''.join(g(m) for m in [n - 1]) if n else ''\ndef f(n): return len(g(n))",
    ),
    (
        "itertools.chain",
        "import itertools\ndef g(n): return itertools.chain([n], *map(g, [n - 1])) if n else []\ndef f(n): return len(list(g(n)))",
    ),
    (
        "itertools.accumulate",
        "import itertools\ndef f(n): return [*itertools.accumulate([1, n - 1], lambda a, b: a + f(b))][1] if n else 0",
    ),
    (
        "yield from",
        "def g(n):\n    yield n\n    if n: yield from g(n - 1)\ndef f(n): return sum(1 for _ in g(n)) - 1",
    ),
    (
        "copy.deepcopy",
        "import copy\ndef f(n):\n    x = []\n    for _ in range(n): x = [x]\n    x, d = copy.deepcopy(x), 0\n    while x: x, d = x[0], d + 1\n    return d",
    ),
    (
        "exec",
        "def f(n): return 1 + eval('f(n - 1)', {'f': f, 'n': n}) if n else 0",
    ),
];

/// Endless recursion in C code, which a raised recursion limit does not end.
pub(crate) const ENDLESS: &[(&str, &str)] = &[
    ("map", "def f(): return list(map(lambda x: f(), [1]))"),
    ("sum", "def f(): return sum(f() for _ in [1])"),
    ("sorted", "def f(): return sorted([1], key=lambda x: f())"),
    (
        "reduce",
        "import functools\ndef f(): return functools.reduce(lambda a, b: f(), [1, 2])",
    ),
    (
        "lru_cache",
        "import functools\n@functools.lru_cache(None)\ndef g(n): return g(n + 1)\ndef f(): return g(0)",
    ),
    (
        "partial",
        "import functools\ndef f(): return functools.partial(f)()",
    ),
    (
        "__init__",
        "class A:\n    def __init__(self): A()\ndef f(): return A()",
    ),
    (
        "__getattr__",
        "class A:\n    def __getattr__(self, name): return getattr(self, name + 'x')\ndef f(): return A().b",
    ),
    (
        "__getattribute__",
        "class A:\n    def __getattribute__(self, name): return self.x\ndef f(): return A().b",
    ),
    (
        "__repr__",
        "class A:\n    def __repr__(self): return repr([self])\ndef f(): return repr(A())",
    ),
    (
        "__str__",
        "class A:\n    def __str__(self): return f'{self}'\ndef f(): return str(A())",
    ),
    (
        "__eq__",
        "class A:\n    def __eq__(self, other): return [A()] == [A()]\ndef f(): return A() == 1",
    ),
    (
        "__hash__",
        "class A:\n    def __hash__(self): return hash((self,))\ndef f(): return hash(A())",
    ),
    (
        "__bool__",
        "class A:\n    def __bool__(self): return not self\ndef f(): return bool(A())",
    ),
    (
        "__call__",
        "class A: pass\nA.__call__ = A()\ndef f(): return A()()",
    ),
    (
        "__instancecheck__",
        "class M(type):\n    def __instancecheck__(cls, x): return isinstance(x, (cls,))\nclass A(metaclass=M): pass\ndef f(): return isinstance(1, A)",
    ),
    (
        "__index__",
        "class A:\n    def __index__(self): return [1][self]\ndef f(): return [1][A()]",
    ),
    (
        "__iter__",
        "class A:\n    def __iter__(self): return iter(self)\ndef f(): return list(A())",
    ),
    (
        "__del__",
        "class A:\n    def __del__(self): A()\ndef f(): A(); return 1",
    ),
    (
        "__format__",
        "class A:\n    def __format__(self, spec): return format(self, spec)\ndef f(): return format(A())",
    ),
    (
        "comparison",
        "class A:\n    def __lt__(self, other): return (A(),) < (A(),)\n    __gt__ = __eq__ = __lt__\ndef f(): return A() < A()",
    ),
    (
        "repr of lists",
        "def f():\n    x = []\n    for _ in range(300000): x = [x]\n    return len(repr(x))",
    ),
    (
        "comparison of lists",
        "def f():\n    x, y = [], []\n    for _ in range(300000): x, y = [x], [y]\n    return x == y",
    ),
    (
        "hash of tuples",
        "def f():\n    x = ()\n    for _ in range(300000): x = (x,)\n    return hash(x)",
    ),
    (
        "deep copy",
        "import copy\ndef f():\n    x = []\n    for _ in range(300000): x = [x]\n    return copy.deepcopy(x)",
    ),
    (
        "pickle",
        "import pickle\ndef f():\n    x = []\n    for _ in range(300000): x = [x]\n    return len(pickle.dumps(x))",
    ),
    (
        "marshal",
        "import marshal\ndef f():\n    x = []\n    for _ in range(300000): x = [x]\n    return len(marshal.dumps(x))",
    ),
    (
        "json.dumps",
        "import json\ndef f():\n    x = []\n    for _ in range(300000): x = [x]\n    return len(json.dumps(x))",
    ),
    (
        "json.loads",
        "import json\ndef f(): return json.loads('[' * 300000)",
    ),
    (
        "json.loads of objects",
        "import json\ndef f(): return json.loads('{\"a\":' * 300000)",
    ),
    (
        "re",
        "import re\ndef f(): return re.compile('(' * 300000 + ')' * 300000)",
    ),
    (
        "re of nested repeats",
        "import re\ndef f(): return re.match('(?:' * 3000 + 'a' + ')*' * 3000, 'a' * 1000) is None",
    ),
    (
        "ast.parse of unary operators",
        "import ast\ndef f(): return ast.parse('-' * 300000 + '1')",
    ),
    (
        "ast.parse of additions",
        "import ast\ndef f(): return ast.parse('1' + '+1' * 300000)",
    ),
    (
        "ast.parse of attributes",
        "import ast\ndef f(): return ast.parse('a' + '.a' * 300000)",
    ),
    (
        "ast.literal_eval",
        "import ast\ndef f(): return ast.literal_eval('-' * 100000 + '1')",
    ),
    (
        "compile of a deep tree",
        "import ast\ndef f():\n    x = ast.Constant(1)\n    for _ in range(300000): x = ast.UnaryOp(ast.USub(), x)\n    return compile(ast.fix_missing_locations(ast.Expression(x)), '', 'eval')",
    ),
    (
        "compile of blocks",
        "def f(): return compile('\\n'.join(' ' * i + 'if 1:' for i in range(99)) + ' pass', '', 'exec')",
    ),
    (
        "compile of comparisons",
        "def f(): return compile('[' * 190 + ']' * 190, '', 'eval') and compile('x' + '[x]' * 300000, '', 'eval')",
    ),
    (
        "deallocation of objects",
        "class A: pass\ndef f():\n    x = None\n    for _ in range(500000):\n        y = A(); y.x = x; x = y\n    del x, y\n    return 1",
    ),
    (
        "deallocation of generators",
        "def g(x):\n    yield x\ndef f():\n    x = None\n    for _ in range(300000):\n        x = g(x); next(x)\n    del x\n    return 1",
    ),
    (
        "deallocation of maps",
        "def f():\n    x = iter([])\n    for _ in range(300000): x = map(int, x)\n    del x\n    return 1",
    ),
    (
        "next of filters",
        "def f():\n    x = iter([1])\n    for _ in range(300000): x = filter(None, x)\n    return next(x)",
    ),
    (
        "isinstance of tuples",
        "def f():\n    x = (int,)\n    for _ in range(300000): x = (x,)\n    return isinstance('', x)",
    ),
    (
        "partial of partial",
        "import functools\ndef f():\n    x = int\n    for _ in range(300000):\n        y = functools.partial(int); y.__setstate__((x, (), {}, {})); x = y\n    return x()",
    ),
    (
        "methods of methods",
        "import types\ndef f():\n    x = len\n    for _ in range(300000): x = types.MethodType(x, 1)\n    return x()",
    ),
    (
        "exceptions in a chain",
        "def f():\n    e = None\n    for _ in range(300000):\n        new = ValueError(); new.__context__ = e; e = new\n    raise e",
    ),
    (
        "union types",
        "def f():\n    x = int\n    for _ in range(300000): x = list[x]\n    return repr(x)",
    ),
    (
        "classes",
        "def f():\n    x = object\n    for _ in range(30000): x = type('A', (x,), {})\n    return 1",
    ),
    (
        "weak references",
        "import weakref\nclass A: pass\ndef f():\n    def back(_): f()\n    x = A(); r = weakref.ref(x, back); del x\n    return 1",
    ),
    (
        "gc",
        "import gc\nclass A:\n    def __del__(self): x = A(); x.x = x; del x; gc.collect()\ndef f():\n    x = A(); x.x = x; del x\n    return gc.collect()",
    ),
    (
        "sorted in a comparison",
        "class A:\n    def __lt__(self, other): return sorted([A(), A()])\ndef f(): return sorted([A(), A()])",
    ),
    (
        "numpy",
        "import numpy\nclass A:\n    def __array__(self, *a, **k): return numpy.array(self)\ndef f(): return numpy.array(A())",
    ),
    (
        "numpy of lists",
        "import numpy\ndef f():\n    x = []\n    for _ in range(300000): x = [x]\n    return numpy.array(x, dtype=object).shape",
    ),
    (
        "numpy of objects",
        "import numpy\nclass A:\n    def __add__(self, other): return (numpy.array([A()], dtype=object) + 1)[0]\ndef f(): return A() + 1",
    ),
    (
        "xml",
        "import xml.etree.ElementTree as E\ndef f(): return len(E.tostring(E.fromstring('<a>' * 100000 + '</a>' * 100000)))",
    ),
    (
        "decimal",
        "import decimal\nclass A(decimal.Decimal):\n    def __add__(self, other): return A(1) + A(1)\ndef f(): return sum([A(1), A(2)])",
    ),
    ("str.join", "def f(): return ''.join(f() for _ in [1])"),
    (
        "__missing__",
        "class D(dict):\n    def __missing__(self, key): return self[key]\ndef f(): return D()[1]",
    ),
    (
        "__set_name__",
        "class N:\n    def __set_name__(self, owner, name): type('B', (), {'x': N()})\ndef f(): return type('B', (), {'x': N()})",
    ),
    (
        "import hooks",
        "import sys\nclass H:\n    def find_spec(self, name, *rest): return __import__(name + 'x')\ndef f():\n    sys.meta_path.insert(0, H())\n    import nothing",
    ),
    ("exec", "def f(): exec('f()', {'f': f})"),
    (
        "audit of attributes",
        "class A:\n    def __setattr__(self, name, value): self.x = value\ndef f(): A().x = 1",
    ),
    (
        "str.translate",
        "class A(dict):\n    def __getitem__(self, key): return 'x'.translate(self)\ndef f(): return 'x'.translate(A())",
    ),
    (
        "callback of re.sub",
        "import re\ndef f(): return re.sub('x', lambda m: f(), 'x')",
    ),
    (
        "struct sequence of datetime",
        "import datetime\nclass Z(datetime.tzinfo):\n    def utcoffset(self, t): return t.utcoffset()\ndef f(): return datetime.datetime(2020, 1, 1, tzinfo=Z()).utcoffset()",
    ),
    (
        "codecs",
        "import codecs\ndef h(e): return ('x\\u20ac'.encode('ascii', 'mine').decode(), e.end)\ndef f():\n    codecs.register_error('mine', h)\n    return '\\u20ac'.encode('ascii', 'mine')",
    ),
];

/// Chains of objects so long that C code of CPython which checks no limit reaches the end of the stack. Natively, such a program may crash the interpreter.
pub(crate) const UNGUARDED: &[(&str, &str)] = &[
    (
        "deallocation",
        "def f():\n    x = None\n    for _ in range(1000000): x = [x]\n    del x\n    return 1",
    ),
    (
        "next of maps",
        "def f():\n    x = iter([1])\n    for _ in range(300000): x = map(int, x)\n    return next(x)",
    ),
    (
        "next of chains",
        "import itertools\ndef f():\n    x = iter([1])\n    for _ in range(300000): x = itertools.chain(x)\n    return next(x)",
    ),
    (
        "yield from",
        "def g(x): yield from x\ndef f():\n    x = iter([1])\n    for _ in range(300000): x = g(x)\n    return next(x)",
    ),
];
