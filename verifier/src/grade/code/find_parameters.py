"""Finds the sets of arguments that pytest's `parametrize` gives to a test. Follows `find_tests.py`.

Sets that are written out, or that an expression without names of the test code's own gives, are tests of their own, called as pytest calls them. How many there are of others is
known only when the test code runs: all of them are one test.
"""

import builtins
import collections
import math

MAX_SETS = 10_000  # of one test
PARAMETRIZE = "pytest.mark.parametrize"
PARAM = "pytest.param"
REMEDY = "write the arguments out in `parametrize`"


class Marks:
    """The `parametrize` marks of a text's tests."""

    def __init__(self, body, names):
        self.names = names
        self.defined = {node.name for node in body if isinstance(node, DEFINITIONS)}
        self.lists = lists_in(body)

    def of(self, node):
        """The marks of a function or a class: the nearest first, as pytest applies them."""
        calls = [item for item in node.decorator_list if isinstance(item, ast.Call)]
        return [Mark(call, node, self) for call in reversed(calls) if meaning(call.func, self.names) == PARAMETRIZE]

    def written(self, node):
        """The sets of a mark as far as they are written out, else `None`."""
        if isinstance(node, ast.Name):
            node = self.lists.get(node.id)
        if isinstance(node, (ast.Call, ast.ListComp, ast.GeneratorExp, ast.BinOp)):
            node = as_written(node)
        if not isinstance(node, (ast.List, ast.Tuple)) or any(isinstance(item, ast.Starred) for item in node.elts):
            return None
        return node.elts


def as_written(node):
    """An expression that only counts and combines, written out as the list of what it gives; `None` where it is another one."""
    try:
        values = [*itertools.islice(worked_out(node), MAX_SETS + 1)]
        return ast.parse(repr(values), mode="eval").body
    except (ValueError, TypeError, SyntaxError, NameError, ArithmeticError, LookupError):
        return None


def worked_out(node):
    """The value of an expression in which nothing but constants and `PURE` functions stands: it cannot do anything, nor depend on the program."""
    for inside in ast.walk(node):
        if isinstance(inside, (ast.Attribute, ast.Lambda, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
            raise ValueError("it is more than a plain expression")
    return eval(compile(ast.Expression(node), "<tests>", "eval"), {"__builtins__": PURE})


PURE = {name: getattr(builtins, name) for name in "abs bool bytes chr complex dict divmod enumerate float int len list max min ord range reversed round set sorted str sum tuple zip".split()}


def lists_in(body):
    """The lists that names at the margin stand for, where nothing but `parametrize` ever mentions the name again."""
    found = {node.targets[0].id: node.value for node in body if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)}
    tree = ast.Module(body, [])
    mentioned = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)] + [name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names]
    decorators = [inner for node in statements(tree) for call in getattr(node, "decorator_list", []) if isinstance(call, ast.Call) for inner in call.args + [word.value for word in call.keywords]]
    marking = [node.id for node in decorators if isinstance(node, ast.Name)]
    return {name: value for name, value in found.items() if mentioned.count(name) == 1 + marking.count(name)}


class Mark:
    """One `parametrize`: the names that it gives values to, and an id for each set; `None` where the sets are computed."""

    def __init__(self, call, owner, marks):
        given = dict(zip(["argnames", "argvalues", "indirect", "ids"], call.args)) | {word.arg: word.value for word in call.keywords}
        self.owner, self.marks = owner, marks
        if "argnames" not in given or "argvalues" not in given:
            raise self.fault("needs names and values")
        indirect = given.get("indirect")
        if indirect is not None and not (isinstance(indirect, ast.Constant) and indirect.value is False) and not (isinstance(indirect, (ast.List, ast.Tuple)) and not indirect.elts):
            raise self.fault("gives arguments to fixtures (`indirect`), which are not run here")
        try:
            names = ast.literal_eval(given["argnames"])
        except (ValueError, TypeError):
            raise self.fault("has computed names") from None
        self.single = isinstance(names, str)
        self.names = [name.strip() for name in names.split(",") if name.strip()] if self.single else [*names]
        self.single = self.single and len(self.names) == 1
        sets = marks.written(given["argvalues"])
        self.ids = None if sets is None else distinct(self.identified(sets, given.get("ids")))

    def fault(self, what):
        return ValueError(f"the `parametrize` of `{self.owner.name}` in line {self.owner.lineno} {what}; {REMEDY}")

    def identified(self, sets, ids):
        if not sets:
            raise self.fault("has no set of arguments, so that the test would never be run")
        given, say = [None] * len(sets), str
        if isinstance(ids, (ast.List, ast.Tuple)) and not any(isinstance(item, ast.Starred) for item in ids.elts):
            if len(ids.elts) != len(sets):
                raise self.fault(f"has {len(sets)} sets of arguments and {len(ids.elts)} ids")
            given = ids.elts
        elif isinstance(ids, ast.Name) and ids.id in ("repr", "ascii", "hex", "oct", "bin"):
            say = getattr(builtins, ids.id)
        return [self.identify(index, item, chosen, say) for index, (item, chosen) in enumerate(zip(sets, given))]

    def identify(self, index, item, chosen, say):
        """What pytest calls a set."""
        values, own = self.values(item)
        for node in (own, chosen):
            if isinstance(node, ast.Constant) and node.value is not None:
                return escaped(str(node.value))
        if values is None:
            return "-".join(f"{name}{index}" for name in self.names)
        if len(values) != len(self.names):
            raise self.fault(f"has {len(self.names)} names ({', '.join(self.names)}) and a set of {len(values)} arguments")
        return "-".join(self.word(name, index, value, say) for name, value in zip(self.names, values))

    def values(self, item):
        """The arguments of a set and its own id, each `None` where that is not written out."""
        own = None
        if isinstance(item, ast.Call) and meaning(item.func, self.marks.names) == PARAM:
            own = next((word.value for word in item.keywords if word.arg == "id"), None)
            values = item.args
        elif self.single:
            return [item], None
        elif isinstance(item, (ast.List, ast.Tuple)):
            values = item.elts
        else:
            return None, None
        return (None if any(isinstance(value, ast.Starred) for value in values) else values), own

    def word(self, name, index, node, say):
        """What stands for one argument in the id of its set: what it is where that can be said shortly, else its name and a number."""
        if isinstance(node, ast.Name) and (node.id in self.marks.defined or isinstance(getattr(builtins, node.id, None), type)):
            return node.id
        try:
            value = worked_out(node)
        except (ValueError, TypeError, SyntaxError, NameError, ArithmeticError, LookupError):
            return f"{name}{index}"
        if say is not str:
            try:
                return escaped(say(value))
            except (ValueError, TypeError):
                pass
        if isinstance(value, (str, bytes)):
            return escaped(value)
        return str(value) if value is None or isinstance(value, (int, float, complex)) else f"{name}{index}"


def escaped(text):
    """Text as pytest shows it: what is not printable ASCII as escapes."""
    if isinstance(text, bytes):
        text = text.decode("ascii", "backslashreplace")
    else:
        text = text.encode("unicode_escape").decode("ascii")
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)


def distinct(ids):
    """Ids of which no two are the same."""
    times = collections.Counter(ids)
    used, numbers, found = {*ids}, collections.Counter(), []
    for name in ids:
        if times[name] > 1:
            between = "_" if name[-1:].isdigit() else ""
            while f"{name}{between}{numbers[name]}" in used:
                numbers[name] += 1
            name = f"{name}{between}{numbers[name]}"
            used.add(name)
        found.append(name)
    return found


def chosen_sets(marks):
    """`(choice, id)` for each test that the marks make of a function: the number of a set of each mark, `None` for all of them."""
    size = math.prod(1 if mark.ids is None else len(mark.ids) for mark in marks)
    if size > MAX_SETS:
        raise ValueError(f"the `parametrize` of `{marks[0].owner.name}` makes {size} tests, more than {MAX_SETS}; leave some out")
    choices = [((), ())]
    for mark in marks:
        sets = [(None, "*")] if mark.ids is None else [*enumerate(mark.ids)]
        choices = [((*numbers, number), (*words, word)) for numbers, words in choices for number, word in sets]
    return [(numbers, "-".join(words)) for numbers, words in choices]


def tests_of(statement, name, marks):
    """A `[statement, name]` for each test of a function that `statement` runs; with a place for the choice of its sets."""
    if not marks:
        return [[statement.format(""), name]]
    return [[statement.format(f", choice={choice!r}"), f"{name}[{words}]"] for choice, words in chosen_sets(marks)]


def parameters(function, marks, bound):
    """The marks of a function, once they are known to give it what it needs; `bound` arguments it has without them."""
    if not marks:
        return marks
    given = [name for mark in marks for name in mark.names]
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args][bound:]
    free = len(plain) - len(arguments.defaults)
    needed = [item.arg for item in plain[: max(free, 0)]] + [item.arg for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults) if default is None]
    known = {item.arg for item in plain + arguments.kwonlyargs}
    for name in needed:
        if name not in given and name not in FIXTURES:
            raise ValueError(f"`{function.name}` in line {function.lineno} takes `{name}`, which no `parametrize` gives it: fixtures are not run here; {REMEDY}")
    for name in given:
        if name not in known and arguments.kwarg is None:
            raise ValueError(f"`{function.name}` in line {function.lineno} does not take `{name}`, which its `parametrize` gives it; correct the name")
        if given.count(name) > 1:
            raise ValueError(f"`{function.name}` in line {function.lineno} gets `{name}` from two `parametrize`; leave one out")
    return marks
