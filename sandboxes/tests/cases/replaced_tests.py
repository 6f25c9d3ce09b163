import contextlib, io, numpy, random, sys, time, types
from unittest.mock import call, mock_open, patch
sys.modules['solution'] = types.ModuleType('solution')

out, error = io.StringIO(), io.StringIO()
with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error): f('prints', 2)
assert (out.getvalue(), error.getvalue()) == ('x-0\nx-1\n', 'end\n')

with patch('sys.stdout', new_callable=io.StringIO) as out:
    try: f('prints', 3)
    except ValueError: pass
assert out.getvalue() == 'x-0\nx-1\nx-2\n'

with patch('sys.stdout') as out: f('prints', 1)
out.write.assert_any_call('x')

with patch('builtins.print') as printed: f('prints', 1)
assert printed.call_args_list[0] == call('x', 0, sep='-')

f('prints', 1)
with patch('builtins.input', side_effect=['1', '2']) as typed: assert f('adds') == 3
assert typed.call_args_list == [call('a '), call()]

with patch('solution.input', lambda *_: '4'): assert f('adds') == 8

with patch('sys.stdin', io.StringIO('3\n4\n5\n')):
    assert f('adds') == 7 and f('lines') == ['5\n']

with patch('builtins.input', side_effect=EOFError):
    try: f('adds')
    except EOFError: pass
    else: assert False

with patch('time.sleep') as slept, patch('time.time', side_effect=[1.0, 4.5]): assert f('waits') == 3.5
slept.assert_called_once_with(100)

with patch('builtins.open', mock_open(read_data='a\nb\n')) as opened: assert f('reads', 'x') == ['a', 'b']
opened.assert_called_once_with('x')

random.seed(7)
mine = [random.random(), random.randint(1, 9)]
random.seed(7)
assert f('draws') == mine != f('draws')

numpy.random.seed(7)
mine = numpy.random.rand(2).tolist()
numpy.random.seed(7)
assert f('numpy') == mine

with patch('random.random', return_value=0.5): assert f('draws')[0] == 0.5

state = random.getstate()
f('state')
assert random.getstate() == state

with patch('builtins.input', lambda *_: f('adds')):
    try: f('adds')
    except RuntimeError as error: assert 'waits for it' in str(error)
