"""Warms the interpreter in its container, then waits for its one job. Follows `guest/imports.py`; `PARTS` are the sources of `clock_and_randomness.py`, `host_connection.py` and
`confine.py` together, and of the harness."""

import platform

_taken = time.process_time_ns  # noqa: F821

for _part in PARTS:  # noqa: F821
    _namespace = {"__name__": "rapid_harness", "__builtins__": dict(vars(builtins))}  # noqa: F821
    exec(compile(_part, "<harness>", "exec"), _namespace)
    if "host" in _namespace:
        sys.stdout = sys.__stdout__ = _namespace["stdout"]  # noqa: F821
        _about = f"CPython {platform.python_version()}, numpy {numpy.__version__}, {platform.machine()}|{_taken()}"  # noqa: F821
        _namespace["put"](_about.encode())
_rapid = _namespace["main"]

# The program's main module shows none of this.
for _name in [name for name in globals() if not name.startswith("__") and name != "_rapid"]:
    del globals()[_name]
del _name

__import__("linecache").clearcache()
__import__("gc").collect()
__import__("gc").freeze()
__import__("gc").enable()
__import__("os").dup2(0, 2)
_rapid()
