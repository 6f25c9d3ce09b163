def _rapid_run_case(case, name):
    """Runs one test of a `TestCase` with its fixtures, and raises where it does not pass. A skipped test passes, as unittest has it."""
    import unittest

    result = unittest.TestResult()
    unittest.TestSuite([case(name)]).run(result)
    for _, text in result.errors + result.failures:
        raise AssertionError(text.strip().splitlines()[-1])
    if result.unexpectedSuccesses:
        raise AssertionError("a failure was expected")


def _rapid_run_method(kind, name, run=lambda outcome: None, choice=()):
    """Runs one test of a class of pytest's, in an instance of its own for each set of arguments, with what is called before and after it."""
    import inspect

    def step(owner, name, argument):
        fixture = getattr(owner, name, None)
        if fixture is not None:
            fixture(*[argument][: len(inspect.signature(fixture).parameters)])

    marks = [*getattr(getattr(kind, name), "pytestmark", ()), *vars(kind).get("pytestmark", ())]
    step(kind, "setup_class", kind)
    try:
        for arguments, dress in _rapid_sets(marks, choice):
            instance = kind()
            test = getattr(instance, name)
            step(instance, "setup_method", test)
            try:
                _rapid_call(dress(test), arguments, run)
            finally:
                step(instance, "teardown_method", test)
    finally:
        step(kind, "teardown_class", kind)


def _rapid_run_sets(test, run=lambda outcome: None, choice=()):
    """Runs a test function with chosen sets of its arguments, or without any."""
    for arguments, dress in _rapid_sets(getattr(test, "pytestmark", []), choice):
        _rapid_call(dress(test), arguments, run)


def _rapid_call(test, arguments, run):
    """Calls a test with its arguments, and with those of pytest's fixtures that it takes."""
    import contextlib
    import inspect

    with contextlib.ExitStack() as stack:
        for name, fixture in (("capsys", _RapidCapsys), ("monkeypatch", _RapidMonkeypatch)):
            if name in inspect.signature(test).parameters and name not in arguments:
                arguments = {**arguments, name: stack.enter_context(fixture())}
        run(test(**arguments))


class _RapidCapsys:
    """`capsys`: what is written while a test runs."""

    def __enter__(self):
        import sys

        self.sys, self.streams = sys, (sys.stdout, sys.stderr)
        self.readouterr()
        return self

    def readouterr(self):
        import collections
        import io

        got = [stream.getvalue() if isinstance(stream, io.StringIO) else "" for stream in (self.sys.stdout, self.sys.stderr)]
        self.sys.stdout, self.sys.stderr = io.StringIO(), io.StringIO()
        return collections.namedtuple("CaptureResult", "out err")(*got)

    def __exit__(self, *error):
        self.sys.stdout, self.sys.stderr = self.streams


class _RapidMonkeypatch:
    """`monkeypatch`: changes that are undone after a test."""

    absent = object()

    def __enter__(self):
        self.changes = []
        return self

    def setattr(self, target, name, value=absent, raising=True):
        if value is self.absent:
            import pkgutil

            (target, _, name), value = target.rpartition("."), name
            target = pkgutil.resolve_name(target)
        old = vars(target).get(name, self.absent) if isinstance(target, type) else getattr(target, name, self.absent)
        if raising and not hasattr(target, name):
            raise AttributeError(f"{target!r} has no attribute {name!r}")
        self.changes.append((setattr, delattr, target, name, old))
        setattr(target, name, value)

    def delattr(self, target, name):
        self.changes.append((setattr, delattr, target, name, getattr(target, name)))
        delattr(target, name)

    def setitem(self, target, name, value):
        self.changes.append((type(target).__setitem__, type(target).__delitem__, target, name, target.get(name, self.absent)))
        target[name] = value

    def delitem(self, target, name):
        self.setitem(target, name, None)
        del target[name]

    def setenv(self, name, value):
        import os

        self.setitem(os.environ, name, value)

    def undo(self):
        for put, drop, target, name, old in reversed(self.changes):
            if old is not self.absent:
                put(target, name, old)
            else:
                drop(target, name)
        self.changes = []

    def __exit__(self, *error):
        self.undo()


def _rapid_sets(marks, choice):
    """`(arguments, dress)` for each chosen set of arguments: a number for each `parametrize`, `None` for all sets of that one. `dress` has the marks of the set itself."""
    import itertools

    marks = [mark for mark in marks if mark.name == "parametrize"]
    sets = [mark.sets if number is None else [mark.sets[number]] for mark, number in zip(marks, choice, strict=True)]
    for chosen in itertools.product(*sets):
        arguments, own = {}, []
        for values, others in chosen:
            arguments.update(values)
            own += others

        def dress(test, own=own):
            for mark in own:
                test = mark(test)
            return test

        yield arguments, dress
