"""What test code does to the interpreter's library, for the program in the other instance: the seeds that it sets, and the functions and streams that it puts in place of the
library's own. These stay in the tests' instance, and the program asks for what they do (`A`), while its call is open.

Follows `conversation.py`.
"""

import builtins
import io
import numpy.random
import os.path
import random
import time as clock

SPACES = {name: vars(module) for name, module in (("builtins", builtins), ("time", clock), ("random", random), ("os.path", os.path), ("sys", sys))}
# The names of each that are looked at.
WATCHED = {
    "builtins": ["print", "input", "open"],
    "time": "sleep time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time strftime localtime gmtime ctime".split(),
    "random": [name for name in random.__all__ if not isinstance(getattr(random, name), type)],
    "os.path": ["exists", "isfile", "isdir"],
    "sys": ["stdin", "stdout", "stderr"],
}
METHODS = {"read", "readline", "write", "writes"}  # of streams and files
SEEDING = [(random, "seed"), (random, "setstate"), (numpy.random, "seed"), (numpy.random, "set_state")]
get_random, set_random = random.getstate, random.setstate
get_numpy, set_numpy = numpy.random.get_state, numpy.random.set_state

MISSING = object()
own = {}  # what the library has under each watched name, before any test
seeded = set()
held = {}  # files that tests gave to the program, by the names that it knows them by


def watch_library():
    """Prepares the tests' instance, before test code runs in it."""
    for module, name in SEEDING:
        setattr(module, name, seeding(getattr(module, name), module))
    for space, names in WATCHED.items():
        own.update({f"{space}.{name}": SPACES[space][name] for name in names})


def seeding(original, module):
    def seed(*arguments, **keywords):
        seeded.add(module)
        return original(*arguments, **keywords)

    return seed


def changes():
    """What tests have changed in the library, for the next call of the program; nothing where all is as it was."""
    told = {}
    stands = [name for name in own if standing(name) is not own[name]]
    solution = modules.get("solution")
    if solution is not None:  # `patch("solution.input")`
        stands += [f"solution.{name}" for name in vars(solution) if name in SPACES["builtins"] and name[:1] != "_"]
    if stands:
        told["stands"] = stands
    if random in seeded:
        version, state, gauss = get_random()
        told["random"] = [version, [*state], gauss]
    if numpy.random in seeded:
        told["numpy"] = [item.tolist() if isinstance(item, numpy.ndarray) else item for item in get_numpy()]
    seeded.clear()
    return told


def standing(name):
    """What stands now under a watched name."""
    space, _, key = name.rpartition(".")
    return (vars(modules["solution"]) if space == "solution" else SPACES[space]).get(key)


def answered(question, stands):
    """The answer to what the program asks while its call is open."""
    try:
        name, arguments, keywords = decode(parse(question))
        stream, _, method = name.rpartition(".")
        if name not in stands and (method not in METHODS or stream not in stands and stream not in held):
            raise NameError(f"no test puts anything in place of {name}")
        limits.leave()
        try:
            if method == "writes":
                value = [standing(stream).write(text) for text in arguments[0]]
            elif name in stands:
                value = standing(name)(*arguments, **keywords)
            else:
                value = getattr(held[stream] if stream in held else standing(stream), method)(*arguments)
        finally:
            limits.enter()
        if method == "open" and not isinstance(value, str):
            held[f"file{len(held)}"] = value
            value = f"file{len(held) - 1}"
    except BaseException as error:
        return raised(b"E", error, kind=kind_of(error))
    try:
        return b"V" + encode(value, job["value"], True, opaque=False)
    except (TooLarge, Unsendable):
        return b"Vnull"


def ask(name, arguments, keywords):
    """In the program's instance: asks for what stands under a name in the tests' instance."""
    reply = send(b"A" + encode([name, [*arguments], keywords], job["value"], True))
    if reply[:1] == b"V":
        return decode(parse(reply[1:]))
    raise exception(*parse(reply[1:]))


class Asking(io.TextIOBase):
    """A text stream that is read and written in the tests' instance."""

    def __init__(self, name):
        self._asked = name

    def read(self, size=-1):
        return ask(self._asked + ".read", [size], {})

    def readline(self, size=-1):
        return ask(self._asked + ".readline", [], {})

    def write(self, text):
        return ask(self._asked + ".write", [text], {})


class Written(io.StringIO):
    """An output stream, whose pieces are written in the tests' instance once the call ends."""

    def __init__(self):
        super().__init__()
        self.pieces = []

    def write(self, text):
        self.pieces.append(text)
        return super().write(text)


def place(name):
    """What the program finds in place of what tests have replaced."""
    if name in ("sys.stdout", "sys.stderr"):
        return Written()
    if name == "sys.stdin":
        return Asking(name)
    if name.endswith(".open"):
        return lambda *arguments, **keywords: Asking(ask(name, arguments, keywords))
    return lambda *arguments, **keywords: ask(name, arguments, keywords)


def follow(told):
    """Makes the library of the program's instance what tests have made of theirs; returns what `restore` takes."""
    if "random" in told:
        version, state, gauss = told["random"]
        set_random((version, tuple(state), gauss))
    if "numpy" in told:
        set_numpy(tuple(told["numpy"]))
    placed = []
    for name in told.get("stands", ()):
        space, _, key = name.rpartition(".")
        space = namespace if space == "solution" else SPACES[space]
        made = place(name)
        placed.append((name, space, key, space.get(key, MISSING), made))
        space[key] = made
    return placed


def restore(placed):
    """After a call: the library as it was, and what the program wrote to the tests."""
    for name, space, key, old, made in placed:
        if space.get(key) is made:
            if old is MISSING:
                del space[key]
            else:
                space[key] = old
    for name, _, _, _, made in placed:
        if isinstance(made, Written) and made.pieces:
            ask(name + ".writes", [made.pieces], {})
