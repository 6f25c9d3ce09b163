"""What the warmed interpreter has imported and put in order before its snapshot is taken. `HARNESS` is the harness's source.

The imports are those that programs commonly make, so that no run pays for them; anything else in the library's zip can still be imported.
"""

import abc, array, ast, base64, bisect, builtins, calendar, cmath, collections, collections.abc, contextlib, copy, dataclasses, datetime  # noqa: E401
import decimal, difflib, enum, fractions, functools, gc, hashlib, heapq, inspect, io, itertools, json, keyword, math, numbers, operator, os  # noqa: E401
import pickle, pprint, queue, random, re, statistics, string, struct, sys, textwrap, threading, time, timeit, traceback, types, typing  # noqa: E401
import unicodedata, unittest, uuid, warnings, weakref, zlib  # noqa: E401

import numpy, numpy.linalg, numpy.random  # noqa: E401

numpy.allclose([1.0, 2.0], [1.0, 2.0], rtol=1e-7, atol=1e-6)
re.compile(r"\w+\s*[a-z0-9]+(a|b)?$").match("warm")
str(decimal.Decimal(1) / 3), repr(fractions.Fraction(1, 3)), datetime.datetime(2025, 1, 1).strftime("%Y")
sum(range(10)), sorted({"b": 1, "a": 2}), "%s %d" % ("a", 1), f"{1.5:.3f}"

_namespace = {"__name__": "rapid_harness", "__builtins__": dict(vars(builtins))}
exec(compile(HARNESS, "<harness>", "exec"), _namespace)  # noqa: F821
_rapid = _namespace["main"]

# The program's main module shows none of this.
for _name in [name for name in globals() if not name.startswith("__") and name != "_rapid"]:
    del globals()[_name]
del _name

__import__("linecache").clearcache()
__import__("sys").stdout.flush()
# Garbage is collected now, and what lives is never looked at again: a collection in a run would otherwise touch, and so copy, every page.
__import__("gc").collect()
__import__("gc").freeze()
