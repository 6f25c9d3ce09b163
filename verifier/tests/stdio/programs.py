"""Whole programs with tests, and how the machine's own CPython judges them.

Reads functions from standard input, one JSON object a line (`name`, `entry_point`, `source`, `calls`), and makes programs of them: right ones, and mutants. Adds those of `written.py`. Each
program runs natively, once for each test. Writes one JSON object a program: `name`, `source`, `tests`, and `passes`, whether it passes all of them by the rule of docs/verifier.md, which
stands here once more, in Python.
"""

import ast
import concurrent.futures
import copy
import json
import math
import re
import subprocess
import sys

from written import PROGRAMS

MUTANTS = 9
SECONDS = 3
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Div: ast.Mult, ast.Pow: ast.Mult}
COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In}

# Ways to read the arguments of a call, one a line in JSON.
READERS = [
    "import json, sys\nargs = [json.loads(line) for line in sys.stdin]\n",
    "import json\nargs = []\ntry:\n    while True:\n        args.append(json.loads(input()))\nexcept EOFError:\n    pass\n",
    "import json, sys\nargs = [json.loads(line) for line in sys.stdin.read().splitlines()]\n",
    "import json\nargs = [json.loads(line) for line in open(0)]\n",
    "import json, sys\nargs = [json.loads(line) for line in sys.stdin.buffer.readlines()]\n",
    "import json, os\nargs = [json.loads(line) for line in os.read(0, 1 << 20).splitlines()]\n",
    "import json, sys\ninput = sys.stdin.readline\nargs = [json.loads(line) for line in iter(input, '')]\n",
]
# Ways to write what it returns.
WRITERS = [
    "print(result)\n",
    "import sys\nsys.stdout.write(f'{result}\\n')\n",
    "if isinstance(result, (list, tuple)):\n    print(*result, sep='\\n')\nelse:\n    print(result)\n",
    "import sys\nsys.stdout.buffer.write(str(result).encode())\n",
    "if __name__ == '__main__':\n    print(repr(result), end='')\n",
    "import os\nos.write(1, (json.dumps(result) + '\\n').encode())\nos._exit(0)\n",
    "import sys\nprint(result, flush=True)\nsys.exit()\n",
]


class Mutator(ast.NodeTransformer):
    """Changes the `at`-th place that can be changed."""

    def __init__(self, at):
        self.left = at
        self.changed = False

    def here(self):
        self.left -= 1
        self.changed |= self.left == -1
        return self.left == -1

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if type(node.op) in OPERATORS and self.here():
            node.op = OPERATORS[type(node.op)]()
        return node

    def visit_Compare(self, node):
        self.generic_visit(node)
        if type(node.ops[0]) in COMPARISONS and self.here():
            node.ops[0] = COMPARISONS[type(node.ops[0])]()
        return node

    def visit_Constant(self, node):
        if type(node.value) is int and self.here():
            return ast.copy_location(ast.Constant(node.value + 1), node)
        if type(node.value) is str and node.value and self.here():
            return ast.copy_location(ast.Constant(node.value[1:]), node)
        return node

    def visit_Return(self, node):
        self.generic_visit(node)
        if node.value is not None and self.here():
            node.value = ast.copy_location(ast.Constant(None), node)
        return node

    def visit_If(self, node):
        self.generic_visit(node)
        if self.here():
            node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
        return node


def mutants(source):
    tree = ast.parse(source)
    for at in range(MUTANTS):
        mutator = Mutator(at)
        mutated = ast.fix_missing_locations(mutator.visit(copy.deepcopy(tree)))
        if not mutator.changed:
            return
        yield ast.unparse(mutated) + "\n"


def programs():
    """`(name, source, [(stdin, stdout or None)])`; the output is that of the first program of the name, where it is `None`."""
    for number, (source, stdin, stdout) in enumerate(PROGRAMS):
        yield f"written {number}", source, [(stdin, stdout)]
    for number, line in enumerate(sys.stdin):
        function = json.loads(line)
        tests = [("\n".join(map(json.dumps, call)), None) for call in function["calls"]]
        for form in (number, number + 3):
            # A form of its own, since the writers differ.
            name = f"{function['name']}, form {form}"
            reader, writer = READERS[form % len(READERS)], WRITERS[form // 2 % len(WRITERS)]
            sources = [function["source"], *mutants(function["source"])]
            for source in sources if form == number else sources[:1]:
                yield name, f"{reader}\n{source}\nresult = {function['entry_point']}(*args)\n{writer}", tests


def run(job):
    """Exit status and output of each of a program's runs; `None` where one takes too long."""
    _, source, tests = job
    runs = []
    for stdin, _ in tests:
        try:
            done = subprocess.run([sys.executable, "-c", source], input=stdin.encode(), capture_output=True, timeout=SECONDS, env={"LANG": "C.UTF-8", "PYTHONHASHSEED": "0"})
        except subprocess.TimeoutExpired:
            return None
        runs.append((done.returncode, done.stdout.decode("utf-8", "replace")))
    return runs


def same_word(expected, got):
    if expected == got:
        return True
    number = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
    if not number.fullmatch(expected) or not number.fullmatch(got) or not set(expected) & set(".eE"):
        return False
    expected, got = float(expected), float(got)
    return math.isfinite(expected) and math.isfinite(got) and abs(expected - got) <= 1e-6 * max(1, abs(expected))


def same(expected, got):
    expected, got = ([line.rstrip() for line in text.rstrip().split("\n")] for text in (expected, got))
    pairs = [(re.split(r"\s", a), re.split(r"\s", b)) for a, b in zip(expected, got)]
    return len(expected) == len(got) and all(len(a) == len(b) and all(map(same_word, a, b)) for a, b in pairs)


def main():
    jobs = list(programs())
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(run, jobs))
    right = {}
    for (name, source, tests), runs in zip(jobs, outcomes):
        if runs is None:
            continue
        expected = [stdout for _, stdout in tests]
        if None in expected:
            expected = right.setdefault(name, [stdout for _, stdout in runs])
        passes = all(status == 0 and same(wanted, got) for (status, got), wanted in zip(runs, expected))
        tests = [{"stdin": stdin, "stdout": wanted} for (stdin, _), wanted in zip(tests, expected)]
        print(json.dumps({"name": name, "source": source, "tests": tests, "passes": passes}))


if __name__ == "__main__":
    main()
