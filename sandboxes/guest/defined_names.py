"""What texts of Python define and use, by the interpreter's own parser and symbol table: nothing of them is run.

Follows `judge.py`. An instance that is asked for this runs no program before or afterwards, so that what it answers is true.
"""

import ast
import keyword
import re
import symtable
import warnings

LONGEST = 1 << 18  # characters of a text that is read statement by statement
STATEMENTS = 1000  # looked at, of a text that is not Python as a whole
ATTEMPTS = 8  # times its own length that such a text is parsed, at most
BUILTIN = frozenset(builtins.__dict__)
FEW_WORDS = re.compile(r"([^\W\d]\w*)[ \t]+([^\W\d]\w*)")
GOES_ON = re.compile(r"[\s)\]}#]|(else|elif|except|finally)\b")
OPERATORS = frozenset(["and", "or", "in", "is", "not", "if", "for", "else"])
WORDS = frozenset(keyword.kwlist + keyword.softkwlist)
UNFINISHED = {"was never closed": re.compile(r"[)\]}]"), "unterminated triple-quoted": re.compile("\"\"\"|'''"), "unexpected EOF": re.compile("")}


def outline(header, text, loose):
    """The pieces of `text` that are Python, behind `header`, and why it is not as a whole: its exception's type and message, or null.

    A piece is `[first line, line behind its last, names that it defines, that it imports, that it uses from elsewhere, whether it goes on with a statement
    that the header begins]`. Without `loose` there is one, the whole text, or none. With it, lines that are no Python and statements that are mere words are left out.
    """
    warnings.simplefilter("ignore")
    lines = text.split("\n")
    try:
        tree = parsed(header + text)
        fault = None
        if not loose or not holds_prose(tree):
            return [[piece(header, text, tree, 0, len(lines))], None]
    except Exception as error:
        fault = [type_name(error), message_of(error)]
    return [pieces(header, lines) if loose and len(text) <= LONGEST else [], fault]


def parsed(source):
    """The tree of a program; raises what loading it would raise."""
    compile(source, "<program>", "exec", dont_inherit=True)
    return compile(source, "<program>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)


def piece(header, text, tree, first, last):
    defines, imports, uses = names(header + text, tree)
    begins = (header.count("\n") + 1, len(header) - header.rfind("\n") - 1)
    goes_on = any([(s.lineno, s.col_offset) < begins < (s.end_lineno, s.end_col_offset) for s in tree.body])
    return [first, last, sorted(defines), sorted(imports), sorted(uses), goes_on]


def names(source, tree):
    """What a program defines and imports at its top level, and the names besides that it takes from there, builtins left out."""
    top = symtable.symtable(source, "<program>", "exec")
    imports = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_imported()}
    annotated = {s.target.id for s in tree.body if is_annotation(s) and type(s.target) is ast.Name}
    if annotated:
        annotated.difference_update(*[bound(s) for s in tree.body if not is_annotation(s)])
    defines = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned()} - annotated
    uses, tables = set(), [top]
    while tables:
        table = tables.pop()
        tables.extend(table.get_children())
        uses.update([symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced() and symbol.is_global()])
    return defines, imports - defines, uses - (defines - rebound(tree)) - imports - BUILTIN


def rebound(tree):
    """Names that an assignment at the top level makes anew of what they stood for before, which is not there: `f = cache(f)`."""
    found, known = set(), set()
    for statement in tree.body:
        if type(statement) in (ast.Assign, ast.AnnAssign, ast.AugAssign) and statement.value is not None:
            read, nodes = set(), [statement.value]
            while nodes:
                node = nodes.pop()
                if type(node) is ast.Name and type(node.ctx) is ast.Load:
                    read.add(node.id)
                if type(node) is not ast.Lambda:
                    nodes.extend(ast.iter_child_nodes(node))
            for comprehension in ast.walk(statement.value):
                if type(comprehension) is ast.comprehension:
                    read -= bound(comprehension.target)
            if type(statement) is ast.AugAssign:
                read |= bound(statement)
            found |= (read & bound(statement)) - known
        known |= bound(statement)
    return found


def is_annotation(statement):
    return type(statement) is ast.AnnAssign and statement.value is None


def bound(statement):
    """Names that a statement may bind, those of inner scopes among them."""
    found = set()
    for node in ast.walk(statement):
        if type(node) is ast.Name and type(node.ctx) is ast.Store:
            found.add(node.id)
        elif type(node) in (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
            found.add(node.name)
        elif type(node) is ast.alias:
            found.add((node.asname or node.name).split(".")[0])
    return found


def is_words(statement):
    """Whether a statement does nothing: an expression without a call, or an annotation without a value."""
    if is_annotation(statement):
        return True
    acts = (ast.Call, ast.NamedExpr, ast.Await)
    return type(statement) is ast.Expr and not any([isinstance(node, acts) for node in ast.walk(statement.value)])


def holds_prose(tree):
    """Whether there is a statement that does nothing and could only fail, by a name that none of those before it has bound."""
    known = set(BUILTIN)
    for statement in tree.body:
        if is_words(statement):
            read = statement.annotation if is_annotation(statement) else statement.value
            if not all([node.id in known for node in ast.walk(read) if type(node) is ast.Name]):
                return True
        known |= bound(statement)
    return False


def pieces(header, lines):
    """Runs of statements at the margin, read one by one, so that each line is parsed a bounded number of times."""
    starts = beginnings(lines)
    ends = [*starts[1:], len(lines)]
    budget = ATTEMPTS * sum(map(len, lines)) + (1 << 16)
    found, run = [], []
    place = 0

    def close():
        if run:
            try:
                found.append(joined(header if run[0] == body else "", lines, run[0], run[-1]))
            except Exception:
                pass
            run.clear()

    body = None  # the line at which the text goes on with the header
    if header:
        # A line of prose may stand before it.
        indented = [n for n in range(ends[0]) if lines[n][:1] in (" ", "\t") and lines[n].strip()]
        for first in [0, *indented[:1]]:
            budget -= len(header)
            try:
                if joined(header, lines, first, ends[0])[5]:
                    body = first
                    run.extend([first, ends[0]])
                    place = 1
                    break
            except Exception:
                pass
    while place < len(starts):
        kind, behind, spent = statement(lines, starts, ends, place, budget)
        budget -= spent
        if kind == "code":
            if not run:
                run.append(starts[place])
            run[1:] = [ends[behind - 1]]
        elif kind != "nothing":
            close()
        place = behind
    close()
    return found


def joined(header, lines, first, last):
    text = "\n".join(lines[first:last])
    return piece(header, text, parsed(header + text), first, last)


def beginnings(lines):
    """The lines at which a statement at the margin may begin."""
    starts, decorated = [0], lines[0][:1] == "@"
    for number, line in enumerate(lines[1:], 1):
        if not line.strip() or GOES_ON.match(line):
            continue
        if decorated and line.startswith(("@", "def ", "async ", "class ")):
            decorated = line[0] == "@"
            continue
        if len(starts) == STATEMENTS:
            break
        decorated = line[0] == "@"
        starts.append(number)
    return starts


def statement(lines, starts, ends, place, budget):
    """What begins at a line: `code`, `words`, `nothing` (comments, text alone) or `other` (no Python); the place behind it; and what reading it took."""
    first = lines[starts[place]]
    few = FEW_WORDS.match(first)
    if few and few[1] not in WORDS and few[2] not in OPERATORS:
        return "other", place + 1, 0
    spent, behind, closer = 0, place + 1, None
    while True:
        source = "\n".join(lines[starts[place] : ends[behind - 1]])
        spent += len(source)
        if spent > budget:
            return "other", place + 1, spent
        try:
            tree = parsed(source)
            break
        except Exception as error:
            message = message_of(error)
        closer = next((closes for words, closes in UNFINISHED.items() if words in message), None)
        # What a bracket or a quotation mark has opened may end behind the margin.
        while closer and behind < len(starts) and not any([closer.search(line) for line in lines[starts[behind] : ends[behind]]]):
            behind += 1
        if closer is None or behind == len(starts):
            return "other", place + 1, spent
        behind += 1
    if all([type(s) is ast.Expr and type(s.value) is ast.Constant for s in tree.body]):
        # A text of several lines is a docstring; what else does nothing may be prose.
        return "code" if any([s.end_lineno > s.lineno for s in tree.body]) else "nothing", behind, spent
    return "words" if all([is_words(s) for s in tree.body]) else "code", behind, spent
