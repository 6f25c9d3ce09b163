"""What a warm interpreter has imported and used once: what programs commonly import, so that no run pays for it.

Anything else in the library can still be imported.
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
