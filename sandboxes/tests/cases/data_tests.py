import collections, numpy

a = f('array')
assert a.shape == (2, 3) and a.dtype == numpy.arange(6).dtype and (a == numpy.arange(6).reshape(2, 3)).all() and f('shape', a) == (2, 3)

assert f('array') == [[0, 1, 2], [3, 4, 5]] and f('floats').sum() == 3.5 and repr(f('floats')) == 'array([1.5, 2. ])'

x = numpy.array([1, 2])
f('double', x)
assert x.tolist() == [2, 4]

assert f('counter').most_common(1) == [('a', 2)] == f('most', collections.Counter('aa')) and f('counter') == {'a': 2, 'b': 1}

assert f('default')[5] == [] and f('named').y == 'z' and f('named') == (1, 'z') and f('colour').value == 'r'

assert f('sum', collections.namedtuple('P', 'x y')(1, 2)) == 3

node, count = f('nodes'), 0
while node: node, count = node.next, count + 1
assert count == 3000

own = f('own')
assert own.x == 1 and vars(own) == {'x': 1} and not hasattr(own, 'size') and own and own != own and repr(own) == '<Own object of the program>'
for look in (len, iter, hash, lambda own: own < own, lambda own: 1 in own, lambda own: own()):
    try: look(own)
    except TypeError: pass
    else: assert False
