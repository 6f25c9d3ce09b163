"""The guest's side of the conversation: loads a program, makes the calls that the host asks for, and sends back what they return.

Follows `values.py`. Only `main` can be reached from the interpreter's main module; each turn runs it once.
"""

modules = sys.modules
job = limits = namespace = function = None


def message_of(error):
    """The message without asking the exception for it: its arguments, as far as they are plain."""
    pieces = []
    for piece in exception_args(error):
        if type(piece) is str:
            pieces.append(piece[:500])
        elif piece is None or type(piece) in (int, float, bool):
            pieces.append(repr(piece))
        elif type(piece) is tuple and len(piece) > 2 and type(piece[1]) is int:
            pieces.append(f"line {piece[1]}")
        if len(pieces) == 4:
            break
    return ", ".join(pieces)[:500]


# What a test may expect of a program, by name. Not those that end an iteration: raised inside `map` or `zip`, they would end a test's loop before its first
# assertion. Nor those that are not made of a message alone.
EXCEPTIONS = {
    kind.__name__: kind
    for kind in __builtins__.values()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    and not issubclass(kind, (StopIteration, StopAsyncIteration, UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError, BaseExceptionGroup))
}
KNOWN = {id(kind): name for name, kind in EXCEPTIONS.items()}
ENDS = [id(StopIteration), id(StopAsyncIteration)]


def kind_of(error):
    """The exception's type; one that is not among those that a test may expect as a class statement writes it, with the first of its bases that is: `Own(ValueError)`."""
    name = type_name(error)
    for base in mro_of(type(error)):
        if id(base) in ENDS:
            break
        known = KNOWN.get(id(base))
        if known is not None:
            return name if known == name else f"{name}({known})"
    return name


def raised(letter, error, note="", kind=None):
    pair = [kind or type_name(error), message_of(error) + note]
    text = ",".join([quote(piece.encode("utf-8", "replace").decode("utf-8")) for piece in pair])
    return letter + b"[" + text.encode("utf-8") + b"]"


class Limits:
    """The interpreter's limits that a program may change: saved while the harness works, and put back for the program."""

    __slots__ = ("digits", "recursion")

    def enter(self):
        self.recursion = get_recursion()
        set_recursion(1000)
        self.digits = get_digits()
        set_digits(0)

    def leave(self):
        set_digits(self.digits)
        set_recursion(self.recursion)


def new_module(name):
    module = types.ModuleType(name)
    module.__dict__["__builtins__"] = builtins
    modules[name] = module
    return module.__dict__


def load(source, namespace):
    exec(compile(source, "<program>", "exec", dont_inherit=True), namespace)


def main():
    global job, limits, namespace, function
    if job is None:
        limits = Limits()
        limits.enter()
        job = parse(send(b"J"))
        limits.leave()
        if job["mode"] == "outline":
            function = outline
        elif job["mode"] == "whole":
            function = whole_program
        elif job["mode"] == "test":
            namespace = new_module("tests")
            watch_library()
            namespace[job["entry_point"]] = stub
        else:
            namespace = new_module("program")
        try:
            if namespace is not None:
                load(job["source"], namespace)
            if job["mode"] in ("call", "serve"):
                function = namespace.get(job["entry_point"], main)
                if function is main:
                    raise NameError(f"the program does not define {job['entry_point']}")
        except BaseException as error:
            limits.enter()
            send(raised(b"U", error))
            return
        send(b"L")
    step = test if job["mode"] == "test" else call
    while step():
        pass


result = None  # of the last call, where the host may yet ask for its JSON
TAG = b'"$'  # in any JSON that stands for something else than it says


def call():
    """Makes the next call; false where the host has none."""
    global result
    request = send(b"N")
    if request == b"?":
        send(in_json(result))
        request = send(b"N")
    result = None
    if not request:
        return False
    if TAG in request:
        limits.enter()
        request = decode(parse(request))
        limits.leave()
    else:
        request = parse(request)
    serving = job["mode"] == "serve"
    arguments, keywords, *told = request if serving else (request, {})
    try:
        placed = follow(told[0]) if told else ()
        try:
            returned = function(*arguments, **keywords)
            if serving:
                # Before anything that the result is yet to do.
                after = encode_arguments([arguments, keywords])
                returned = drawn(returned)
        finally:
            restore(placed)
    except BaseException as error:
        limits.enter()
        answer = raised(b"E", error, kind=kind_of(error) if serving else None)
        limits.leave()
        send(answer)
        return True
    if serving:
        send(in_json(returned, after))
    elif sent_binary(returned):
        result = returned
    else:
        send(in_json(returned))
    return True


def sent_binary(result):
    """Sends a result in the form that the interpreter's own C code writes; false where it has none. It is written for built-in types alone, exactly,
    and for objects that show their memory as bytes; the host takes none for bytes."""
    longest = job["value"]
    try:
        if type(result) is not list or len(result) <= SLICE:
            text = dumps(result, 4)
            if len(text) > longest:
                return False
        else:
            last = len(result) - SLICE
            for start in range(0, last, SLICE):
                text = dumps(result[start : start + SLICE], 4)
                if len(text) > longest:
                    return False
                send(b"B" + text)
            text = dumps(result[start + SLICE :], 4)
            if len(text) > longest:
                return False
    except BaseException:
        return False
    send(b"M" + text)
    return True


def in_json(result, after=None):
    """The answer to a call; with `after`, the arguments as the call left them, where another instance is to have them."""
    limits.enter()
    try:
        if after is None:
            return b"V" + encode(result, PIECE, False)
        return b"V[" + encode(result, job["value"], True) + b"," + after + b"]"
    except TooLarge:
        return b"T"
    except BaseException as error:
        return raised(b"E", error)
    finally:
        limits.leave()


def encode_arguments(request):
    limits.enter()
    try:
        return encode(request, job["value"], True, opaque=False)
    except (TooLarge, Unsendable):
        return b"null"
    finally:
        limits.leave()
