"""What test code uses of pytest, which the sandbox does not have: marks, `param`, `raises`, `approx` and `fail`. `run_case.py` has two of its fixtures."""


def _rapid_pytest():
    import functools
    import inspect
    import math
    import re
    import sys
    import types

    class Mark:
        """`pytest.mark.name`, with its arguments once it was called with them."""

        def __init__(self, name, args=(), words=None):
            self.name, self.args, self.words = name, args, words or {}
            if name == "parametrize" and (args or words):
                self.sets = sets_of(*args, **self.words)

        def __call__(self, *args, **words):
            if len(args) != 1 or words or not inspect.isroutine(args[0]) and not inspect.isclass(args[0]):
                return Mark(self.name, self.args + args, self.words | words)
            return self.put_on(args[0])

        def put_on(self, target):
            if self.name not in ("skip", "skipif", "xfail"):
                target.pytestmark = [*vars(target).get("pytestmark", ()), self]
                return target
            if isinstance(target, type):
                for name, item in [*vars(target).items()]:
                    if name.startswith("test") and inspect.isroutine(item):
                        setattr(target, name, self.put_on(item))
                return target
            conditions = [item for item in self.args[: self.name != "skip"] if not isinstance(item, str)] + [self.words[word] for word in ["condition"] if word in self.words]
            if conditions and not any(conditions):
                return target
            if self.name != "xfail":
                return around(target, lambda *_: False, lambda: None)
            expected = self.words.get("raises", Exception)

            def passed():
                if self.words.get("strict"):
                    raise AssertionError("a failure was expected")

            return around(target, lambda error: isinstance(error, expected), passed, True)

    def around(test, forgives, passed, runs=False):
        """A test that passes where it raises what `forgives` says; one that is not run, where it `runs` not."""
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def dressed(*args, **words):
                try:
                    if runs:
                        await test(*args, **words)
                except Exception as error:
                    if not forgives(error):
                        raise
                else:
                    passed()
        else:

            @functools.wraps(test)
            def dressed(*args, **words):
                try:
                    if runs:
                        test(*args, **words)
                except Exception as error:
                    if not forgives(error):
                        raise
                else:
                    passed()

        return dressed

    class Param:
        def __init__(self, *values, marks=(), id=None):
            self.values, self.marks = values, [*marks] if isinstance(marks, (list, tuple)) else [marks]

    def sets_of(argnames, argvalues, indirect=False, ids=None, scope=None):
        """The arguments of each set by name, and the set's own marks."""
        single = isinstance(argnames, str)
        names = [name.strip() for name in argnames.split(",") if name.strip()] if single else [*argnames]
        found = []
        for item in argvalues:
            if not isinstance(item, Param):
                item = Param(item) if single and len(names) == 1 else Param(*item)
            found.append((dict(zip(names, item.values, strict=True)), item.marks))
        return found

    class Raises:
        def __init__(self, expected, match=None, check=None):
            self.expected, self.match, self.check = expected, match, check

        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            if kind is None:
                raise AssertionError(f"DID NOT RAISE {self.expected}")
            if not issubclass(kind, self.expected):
                return False
            self.type, self.value = kind, error
            if self.match is not None and not re.search(self.match, str(error)):
                raise AssertionError(f"{str(error)!r} does not match {self.match!r}")
            if self.check is not None and not self.check(error):
                raise AssertionError(f"{error!r} did not pass the check")
            return True

    def raises(expected, *args, **words):
        if not args:
            return Raises(expected, **words)
        with Raises(expected) as info:
            args[0](*args[1:], **words)
        return info

    class approx:
        __array_priority__ = 100
        __hash__ = None

        def __init__(self, expected, rel=None, abs=None, nan_ok=False):
            self.expected, self.rel, self.abs, self.nan_ok = expected, rel, abs, nan_ok

        def __repr__(self):
            return f"approx({self.expected!r})"

        def __eq__(self, actual):
            return self.same(plain(self.expected), plain(actual))

        def same(self, expected, actual):
            if isinstance(expected, dict):
                return isinstance(actual, dict) and expected.keys() == actual.keys() and all(self.same(expected[key], actual[key]) for key in expected)
            if isinstance(expected, (list, tuple)):
                return isinstance(actual, (list, tuple)) and len(expected) == len(actual) and all(map(self.same, expected, actual))
            try:
                if expected == actual:
                    return True
                if isinstance(expected, bool) or isinstance(actual, bool):
                    return False
                if expected != expected:
                    return self.nan_ok and actual != actual
                difference = abs(expected - actual)
                if math.isinf(abs(expected)):
                    return False
                absolute = 1e-12 if self.abs is None else self.abs
                relative = (1e-6 if self.abs is None else 0) if self.rel is None else self.rel
                return difference <= max(absolute, relative * abs(expected))
            except TypeError:
                return False

    def plain(value):
        return value.tolist() if hasattr(value, "tolist") else value

    def fail(reason="", pytrace=True):
        raise AssertionError(reason)

    class Marker:
        def __getattr__(self, name):
            return Mark(name)

    def missing(name):
        raise AttributeError(f"pytest.{name} is not to be had where test code is run; of fixtures there are capsys and monkeypatch")

    module = types.ModuleType("pytest")
    module.mark, module.param, module.raises, module.approx, module.fail = Marker(), Param, raises, approx, fail
    module.__getattr__ = missing
    sys.modules["pytest"] = module


_rapid_pytest()
