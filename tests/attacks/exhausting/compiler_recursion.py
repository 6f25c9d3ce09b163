# Sources on which the compiler recurses.
# verdict: incorrect timeout

def solve(xs):
    for source in ("-" * 200_000 + "1", "x" + ".y" * 200_000, "lambda: " * 50_000 + "1", "x" + "(1)" * 100_000, "a" + " if b else c" * 50_000, "not " * 100_000 + "1", "f'{" * 500 + "1" + "}'" * 500):
        try:
            compile(source, "bomb", "eval")
        except (SyntaxError, MemoryError, RecursionError):
            pass
    return None
