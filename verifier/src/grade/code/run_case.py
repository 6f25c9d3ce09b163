def _rapid_run_case(case, name):
    """Runs one test of a `TestCase` with its fixtures, and raises where it does not pass. A skipped test passes, as unittest has it."""
    import unittest

    result = unittest.TestResult()
    unittest.TestSuite([case(name)]).run(result)
    for _, text in result.errors + result.failures:
        raise AssertionError(text.strip().splitlines()[-1])
    if result.unexpectedSuccesses:
        raise AssertionError("a failure was expected")


def _rapid_run_method(kind, name, run=lambda outcome: None):
    """Runs one test of a class of pytest's, in an instance of its own, with what is called before and after it."""
    import inspect

    def step(owner, name, argument):
        fixture = getattr(owner, name, None)
        if fixture is not None:
            fixture(*[argument][: len(inspect.signature(fixture).parameters)])

    step(kind, "setup_class", kind)
    instance = kind()
    test = getattr(instance, name)
    step(instance, "setup_method", test)
    try:
        run(test())
    finally:
        step(instance, "teardown_method", test)
        step(kind, "teardown_class", kind)
