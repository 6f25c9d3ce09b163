# Chains of objects so long that C code of CPython which checks no limit reaches the end of the stack. Natively, such a program may crash the interpreter.

## deallocation
def f():
    x = None
    for _ in range(1000000): x = [x]
    del x
    return 1

## next of maps
def f():
    x = iter([1])
    for _ in range(300000): x = map(int, x)
    return next(x)

## next of chains
import itertools
def f():
    x = iter([1])
    for _ in range(300000): x = itertools.chain(x)
    return next(x)

## yield from
def g(x): yield from x
def f():
    x = iter([1])
    for _ in range(300000): x = g(x)
    return next(x)
