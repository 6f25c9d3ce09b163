"""Finds the tests that a text of test code defines. It is read, never run: that happens in the tests' own instance.

Whatever looks like a test and is neither found nor mentioned anywhere is refused: it would never be run, and any program would pass it.
"""

import ast
import itertools

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
LEAVING = ("sys.exit", "exit", "quit")
FIXTURES = {"capsys", "monkeypatch"}  # those of pytest's that `run_case.py` has


def find(code, entry_point):
    """The code without its own calls of the tests, and a `[statement, name]` for each test; none where the code itself is the test."""
    code = code.replace("\r\n", "\n").replace("\r", "\n")
    tree = ast.parse(code)
    compile(tree, "<tests>", "exec")  # Some faults only the compiler finds: a `return` outside a function.
    if not tree.body:
        raise ValueError("it holds no statement")
    names = meanings(tree)
    blocks = [node for node in tree.body if is_main_block(node)]
    body = [node for node in tree.body if node not in blocks]
    tests, taken = tests_in(body, names, entry_point)
    needed = [block for block in blocks if is_needed(block, body, tests, taken)]
    if needed:
        body += [node for block in needed for node in block.body]
        tests, taken = tests_in(body, names, entry_point)
    refuse_others(tree, taken)
    changes = [(block.test, "True") for block in needed] + own_calls(body, names, tests, code)
    changed = replaced(code, changes)
    return ["", [[changed, code]]] if changes and not tests else [changed, tests]


def statements(node):
    """Every statement inside a node, however deep. Expressions, which may go deep, are not looked at."""
    left = [node]
    while left:
        node = left.pop()
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            inside = getattr(node, field, None)
            if isinstance(inside, list):
                yield from inside
                left += inside


def meanings(tree):
    """What the names stand for that a text gives to what it imports."""
    names = {}
    for node in statements(tree):
        if isinstance(node, ast.Import):
            names.update({item.asname: item.name for item in node.names if item.asname})
        elif isinstance(node, ast.ImportFrom):
            names.update({item.asname or item.name: f"{node.module}.{item.name}" for item in node.names})
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Name, ast.Attribute)):
            names.update({target.id: meaning(node.value, names) for target in node.targets if isinstance(target, ast.Name)})
    return names


def meaning(node, names):
    first, dot, rest = ast.unparse(node).partition(".")
    return names.get(first, first) + dot + rest


def is_main_block(node):
    """Whether it is `if __name__ == "__main__":`."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare) or not isinstance(node.test.ops[0], ast.Eq):
        return False
    return sorted(map(ast.unparse, [node.test.left, *node.test.comparators])) == ["'__main__'", "__name__"]


def is_needed(block, body, tests, taken):
    """Whether a block for the main module, which is not run otherwise, tests something beyond what is found without it."""
    if any(isinstance(node, ast.Assert) or looks_like_test(node) for node in statements(block)):
        return True
    others = [node for node in body if isinstance(node, DEFINITIONS) and node not in taken]
    asserting = {node.name for node in others if asserts(node)}
    if any(isinstance(node, ast.Name) and node.id in asserting for node in ast.walk(block)):
        return True
    return not tests and not any(asserts(node) for node in body if not isinstance(node, DEFINITIONS))


def asserts(node):
    return isinstance(node, ast.Assert) or any(isinstance(inside, ast.Assert) for inside in statements(node))


def tests_in(body, names, entry_point):
    """A `[statement, name]` for each test that is defined among these statements, and the definitions that are run by them."""
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    bases = {ast.unparse(base) for node in classes.values() for base in node.bases}
    marks = Marks(body, names)
    tests, taken = [], set()
    for node in body:
        if isinstance(node, ast.ClassDef):
            case = case_of(node, classes, names, ())
            shared = marks.of(node)
            found = methods(node, classes, case, shared)
            if not found or case is None and (not node.name.startswith("Test") or node.name in bases):
                continue
            for name in sorted(found):
                test = f"{node.name}, {name!r}"
                if case is not None:
                    tests.append([f"_rapid_run_case({test})", f"{node.name}.{name}"])
                    continue
                waits = ", _rapid_run_async" if isinstance(found[name], ast.AsyncFunctionDef) else ""
                own = parameters(found[name], [*marks.of(found[name]), *shared], 1)
                tests += tests_of(f"_rapid_run_method({test}{waits}{{}})", f"{node.name}.{name}", own)
            taken.update([node, *found.values()])
        elif isinstance(node, FUNCTIONS) and not is_generator(node):
            own = marks.of(node) if node.name.startswith("test") else []
            if own:
                waits = ", _rapid_run_async" if isinstance(node, ast.AsyncFunctionDef) else ""
                tests += tests_of(f"_rapid_run_sets({node.name}{waits}{{}})", node.name, parameters(node, own, 0))
                taken.add(node)
                continue
            if node.name == "check" and required(node.args) == 1:
                call = f"check({entry_point})"
            elif node.name.startswith("test") and required(node.args) <= patches(node, names):
                call = f"{node.name}()"
            elif node.name.startswith("test") and takes_fixtures(node.args, patches(node, names)):
                waits = ", _rapid_run_async" if isinstance(node, ast.AsyncFunctionDef) else ""
                tests.append([f"_rapid_run_sets({node.name}{waits})", node.name])
                taken.add(node)
                continue
            else:
                continue
            tests.append([f"_rapid_run_async({call})" if isinstance(node, ast.AsyncFunctionDef) else call, call])
            taken.add(node)
    return tests, taken


def case_of(node, classes, names, seen):
    """The `TestCase` that a class is one of, as far as its own text tells; `seen` are the classes on the way to it."""
    for base in node.bases:
        name, meant = ast.unparse(base), meaning(base, names)
        if name not in classes:
            if meant.endswith("TestCase"):
                return meant
        elif name not in seen:
            case = case_of(classes[name], classes, names, (*seen, name))
            if case is not None:
                return case
    return None


def methods(node, classes, case, shared):
    """The tests of a class by name, all of which have the `shared` marks. Of methods that wait, `unittest` runs those of one kind of case; pytest gives no arguments, and makes no instance that needs any."""
    functions = members(node, classes, ())
    found = {name: item for name, item in functions.items() if name.startswith("test") and not is_generator(item)}
    if case is None:
        plain = "__init__" not in functions
        return {name: item for name, item in found.items() if plain and (item.decorator_list or shared or required(item.args) == 1 or takes_fixtures(item.args, 1))}
    waits = case.endswith("IsolatedAsyncioTestCase")
    return {name: item for name, item in found.items() if waits or isinstance(item, ast.FunctionDef)}


def members(node, classes, seen):
    """The functions of a class and of its bases, as far as its own text has them."""
    found = {}
    for base in reversed([ast.unparse(base) for base in node.bases]):
        if base in classes and base not in seen:
            found.update(members(classes[base], classes, (*seen, base)))
    found.update({item.name: item for item in node.body if isinstance(item, FUNCTIONS)})
    return found


def required(arguments):
    """Arguments that a call must give; more than can be given where some have to be named."""
    if any(default is None for default in arguments.kw_defaults):
        return 99
    return len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)


def patches(function, names):
    """How many arguments its decorators `patch` and `patch.object` give it."""
    known = {"unittest.mock.patch": 1, "unittest.mock.patch.object": 2}
    calls = [(item, known.get(meaning(item.func, names))) for item in function.decorator_list if isinstance(item, ast.Call)]
    return sum(count is not None and len(item.args) <= count and all(word.arg != "new" for word in item.keywords) for item, count in calls)


def takes_fixtures(arguments, bound):
    """Whether what a call must give, after `bound` arguments, are fixtures."""
    given = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    needed = [item.arg for item in [*arguments.posonlyargs, *arguments.args][bound:given]]
    return given > bound and required(arguments) == given and FIXTURES.issuperset(needed)


def is_generator(function):
    """Whether a call of it runs nothing of it."""
    left = [*function.body]
    while left:
        node = left.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (*DEFINITIONS, ast.Lambda, ast.List, ast.Tuple, ast.Set, ast.Dict)):
            left += ast.iter_child_nodes(node)
    return False


def looks_like_test(node):
    return isinstance(node, FUNCTIONS) and node.name.startswith("test") or isinstance(node, ast.ClassDef) and node.name.startswith("Test")


def refuse_others(tree, taken):
    """Refuses what looks like a test and is neither among those that are run nor mentioned anywhere."""
    others = [node for node in statements(tree) if looks_like_test(node) and node not in taken]
    if not others:
        return
    inside = [*ast.walk(tree)]
    mentioned = {node.id for node in inside if isinstance(node, ast.Name)} | {node.attr for node in inside if isinstance(node, ast.Attribute)}
    for node in sorted(others, key=lambda node: node.lineno):
        if node.name not in mentioned:
            raise ValueError(
                f"`{node.name}` in line {node.lineno} would never be run: tests are functions test… without arguments, at the margin, and methods of a TestCase (async ones of an "
                "IsolatedAsyncioTestCase) or of a class Test… without __init__; rename what is no test"
            )


def own_calls(body, names, tests, code):
    """What is to stand in place of a text's own calls that run its tests or leave the interpreter."""
    changes = []
    for node in body:
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            continue
        if meaning(node.value.func, names) in LEAVING:
            # With what it would leave is worked out all the same.
            left = [f"({ast.get_source_segment(code, argument)})" for argument in node.value.args if not is_own_call(argument, names, tests)]
            changes.append((node, left[0] if left else "pass"))
        elif is_own_call(node.value, names, tests):
            changes.append((node, "pass"))
    return changes


def is_own_call(node, names, tests):
    """Whether it is a call that runs all tests, or one that is found."""
    if not isinstance(node, ast.Call):
        return False
    if meaning(node.func, names) == "unittest.main":
        if not tests:
            raise ValueError("it calls unittest.main, and no test is found in it")
        return True
    plain = all(isinstance(part, ast.Name) for part in [node.func, *node.args])
    return plain and ast.unparse(node) in [statement for statement, _ in tests]


def replaced(code, changes):
    """The code with another text in place of each of some nodes."""
    data = code.encode()
    starts = [0, *itertools.accumulate(len(line) + 1 for line in data.split(b"\n"))]
    for node, text in sorted(changes, key=lambda change: (change[0].lineno, change[0].col_offset), reverse=True):
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        data = data[:start] + text.encode() + data[end:]
    return data.decode()
