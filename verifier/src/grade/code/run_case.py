def _rapid_run_case(case, name):
    """Runs one test of a `TestCase` with its fixtures, and raises where it does not pass. A skipped test passes, as unittest has it."""
    import unittest

    result = unittest.TestResult()
    unittest.TestSuite([case(name)]).run(result)
    for _, text in result.errors + result.failures:
        raise AssertionError(text.strip().splitlines()[-1])
    if result.unexpectedSuccesses:
        raise AssertionError("a failure was expected")
