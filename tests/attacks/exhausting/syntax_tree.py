# A syntax tree a million nodes deep, made by hand.
# verdict: incorrect timeout memory

import ast


def solve(xs):
    node = ast.Constant(1)
    for _ in range(200_000):
        node = ast.UnaryOp(ast.USub(), node)
    try:
        compile(ast.fix_missing_locations(ast.Expression(node)), "bomb", "eval")
    except (RecursionError, ValueError, SyntaxError, MemoryError):
        pass
    return None
