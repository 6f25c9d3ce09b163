import numpy, random, sys, time
def prints(n):
    for i in range(n): print('x', i, sep='-')
    print('end', file=sys.stderr)
    if n > 2: raise ValueError('too many')
def waits():
    start = time.time()
    time.sleep(100)
    return time.time() - start
def reads(path):
    with open(path) as file: return [line.strip() for line in file]
MADE = {'prints': prints, 'waits': waits, 'reads': reads, 'adds': lambda: int(input('a ')) + int(input()), 'lines': lambda: [*sys.stdin],
    'draws': lambda: [random.random(), random.randint(1, 9)], 'numpy': lambda: numpy.random.rand(2).tolist(), 'state': lambda: random.seed(1)}
def f(kind, *arguments): return MADE[kind](*arguments)
