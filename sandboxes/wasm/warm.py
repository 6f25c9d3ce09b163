"""Puts the interpreter in order before its snapshot is taken. Follows `guest/imports.py`; `HARNESS` is the harness's source."""

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
