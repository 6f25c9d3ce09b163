"""Finds the tests that a text of test code defines. It is read, never run: that happens in the tests' own instance."""

import ast


def find(code, entry_point):
    """The code without its own calls of the tests, and a `[statement, name]` for each test; none where the code itself is the test."""
    tree = ast.parse(code)
    compile(tree, "<tests>", "exec")  # Some faults only the compiler finds: a `return` outside a function.
    body = tree.body
    if not body:
        raise ValueError("it holds no statement")
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    tests, calls = [], []
    for node in body:
        if isinstance(node, ast.ClassDef) and is_case(node, classes, ()):
            tests += [[f"_rapid_run_case({node.name}, {name!r})", f"{node.name}.{name}"] for name in methods(node, classes, ())]
        elif isinstance(node, ast.FunctionDef) and node.name == "check" and required(node.args) == 1:
            tests.append([f"check({entry_point})", f"check({entry_point})"])
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test") and required(node.args) == 0:
            tests.append([f"{node.name}()", f"{node.name}()"])
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in ("check", "unittest.main"):
            calls.append(node)
    if tests:
        lines = code.split("\n")
        for node in calls:
            lines[node.lineno - 1 : node.end_lineno] = ["pass"] + [""] * (node.end_lineno - node.lineno)
        code = "\n".join(lines)
    return [code, tests]


def base_name(base):
    return ast.unparse(base).rpartition(".")[2]


def is_case(node, classes, seen):
    """Whether a class is a `TestCase`, as far as its own text tells; `seen` are the classes on the way to it."""
    for name in map(base_name, node.bases):
        if name in classes and name not in seen:
            if is_case(classes[name], classes, (*seen, name)):
                return True
        elif name.endswith("TestCase"):
            return True
    return False


def methods(node, classes, seen):
    """The names of a class's tests in the order in which unittest runs them, those of its bases included."""
    names = {item.name for item in node.body if isinstance(item, ast.FunctionDef) and item.name.startswith("test")}
    for name in map(base_name, node.bases):
        if name in classes and name not in seen:
            names.update(methods(classes[name], classes, (*seen, name)))
    return sorted(names)


def required(arguments):
    """Arguments that a call must give; more than can be given where some have to be named."""
    if any(default is None for default in arguments.kw_defaults):
        return 99
    return len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
