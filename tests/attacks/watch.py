"""A right program that answers only where nothing is left of an earlier one."""

import atexit
import builtins
import decimal
import gc
import json
import linecache
import math
import os
import random
import re
import signal
import sys
import threading
import unittest

import numpy

MARK = "rapid_mark"
FOLDERS = ("", "/", "/tmp/", "/var/tmp/", "/dev/shm/", "/home/", "/root/", "/usr/local/lib/")


def frames():
    frame = sys._getframe()
    while frame is not None:
        yield frame.f_globals
        frame = frame.f_back


left = {
    "builtins": hasattr(builtins, MARK) or sorted([2, 1]) != [1, 2] or len("ab") != 2,
    "modules": MARK in sys.modules or hasattr(numpy, MARK) or "tests" in sys.modules,
    "files": any(os.path.exists(folder + name) for folder in FOLDERS for name in (MARK, "rapid-mark")),
    "environment": MARK.upper() in os.environ,
    "library": math.pi == 3 or json.dumps([1]) != "[1]" or not numpy.allclose(1, 1) or numpy.allclose(1, 2),
    "assertions": unittest.TestCase.assertEqual.__module__ != "unittest.case" or issubclass(BaseException, AssertionError),
    "limits": sys.getrecursionlimit() != 1000 or sys.get_int_max_str_digits() != 4300,
    "decimal": decimal.getcontext().prec != 28,
    "path": "/" + MARK in sys.path or any("Finder" == type(finder).__name__ for finder in sys.meta_path),
    "types": MARK in dict.__dict__ or MARK in list.__dict__,
    "caches": MARK in linecache.cache or any(MARK in str(key) for key in re._cache),
    "garbage": not gc.isenabled() or bool(gc.callbacks),
    "hooks": sys.displayhook is print or sys.excepthook is print or atexit._ncallbacks() > 50 or sys.gettrace() is not None,
    "streams": sys.stdout is None or sys.stdout.closed or sys.stderr is None,
    "threads": threading.active_count() != 1,
    "signals": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    "random": random.random() == 0.32383276483316237,
    "harness": any(MARK in names for names in frames()),
}


def solve(xs):
    found = [name for name in left if left[name]]
    return found or sorted(x * x for x in xs if x % 2 == 0)
