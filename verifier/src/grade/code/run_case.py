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
                run(dress(test)(**arguments))
            finally:
                step(instance, "teardown_method", test)
    finally:
        step(kind, "teardown_class", kind)


def _rapid_run_sets(test, run=lambda outcome: None, choice=()):
    """Runs a test function with chosen sets of its arguments."""
    for arguments, dress in _rapid_sets(test.pytestmark, choice):
        run(dress(test)(**arguments))


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
