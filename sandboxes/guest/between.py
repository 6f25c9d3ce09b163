"""What crosses between two instances of the interpreter besides the values of `values.py`: objects of the library's types, which are made anew from their parts; what an iterator
gives; and of a program's own objects the attributes.
"""

from collections import namedtuple
from itertools import islice

DRAWN = 1 << 16  # elements of an iterator, of which longer ones are not sent
OBJECTS = 1 << 14  # objects of a program's classes in one value, of which more have no attributes


class Opaque:
    """In the tests' instance, a result that has no encoding: it equals nothing, itself included. Of an object of the program's own class it has the data, as plain attributes, and
    none of the methods."""

    __slots__ = ("_rapid_kind", "__dict__")
    __hash__ = None
    last = None  # The type of the one that came last, for people.

    def __init__(self, kind):
        self._rapid_kind = Opaque.last = kind[:100] if type(kind) is str else "object"

    def __eq__(self, other):
        return False

    def __ne__(self, other):
        return True

    def __repr__(self):
        return f"<{self._rapid_kind} object of the program>"


class Array(numpy.ndarray):
    """In the tests' instance, an array of the program's. It also equals a list of the same elements, as numbers of numpy's equal plain ones."""

    __slots__ = ()
    __hash__ = None

    def __eq__(self, other):
        return numpy.bool_(self.tolist() == other) if type(other) is list else super().__eq__(other)

    def __ne__(self, other):
        return numpy.bool_(self.tolist() != other) if type(other) is list else super().__ne__(other)

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return array[()] if return_scalar else array.view(numpy.ndarray)


Array.__name__ = "array"


class Drawn:
    """What an iterator gives, which travels in its place: its elements, and type and message of what it raises behind them, if anything."""

    __slots__ = ("generator", "items", "error")

    def __init__(self, iterator):
        self.generator = type(iterator) is types.GeneratorType
        self.items = []
        self.error = None
        try:
            for item in islice(iterator, DRAWN + 1):
                self.items.append(item)
        except BaseException as error:
            self.error = [type_name(error), message_of(error)]


def drawn(value):
    """What goes to the tests' instance for a result: for an iterator of the interpreter's own types, all that it gives, where that is not too much."""
    if id(type(value)) not in ITERATORS:
        return value
    taken = Drawn(value)
    return value if len(taken.items) > DRAWN else taken


DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)


def is_own(kind):
    """Whether it is a class of the program's own."""
    module = dict_of(kind).get("__module__")
    return kind is types.SimpleNamespace or type(module) is str and module == "program"


def data_of(value):
    """The attributes of an object, without asking the object for them."""
    data = {}
    for base in mro_of(type(value)):
        for name, item in [*dict_of(base).items()]:
            if type(item) not in DESCRIPTORS or type(name) is not str or name[:2] == "__" and name != "__dict__":
                continue
            try:
                found = item.__get__(value)
            except AttributeError:
                continue
            data.update(found if name == "__dict__" and type(found) is dict else {name: found})
    if "_name_" in data and "_value_" in data:  # of an enumeration
        data["name"], data["value"] = data["_name_"], data["_value_"]
    return data


def fields_of(kind):
    """The names of a named tuple's fields; `None` for another type."""
    named = False
    for base in mro_of(kind):
        if base is tuple:
            named = True
    for base in mro_of(kind) if named else ():
        fields = dict_of(base).get("_fields")
        if type(fields) is tuple and all([type(field) is str for field in fields]):
            return [*fields]
    return None


def array_parts(value):
    """An array of plain numbers; `None` for another."""
    kind = value.dtype.str
    return [kind, [*value.shape], value.ravel().tolist()] if kind in NUMBERS else None


# The types of numbers that come out of an array as they went in.
NUMBERS = {"|b1", "|i1", "|u1", *[f"<{kind}" for kind in "i2 i4 i8 u2 u4 u8 f2 f4 f8 c8 c16".split()]}
FACTORIES = {kind.__name__: kind for kind in (int, float, str, list, dict, set, tuple, bool)}
FACTORY_NAMES = {id(kind): name for name, kind in FACTORIES.items()}

ITERATORS = {
    id(kind)
    for kind in [types.GeneratorType, map, filter, zip, enumerate, reversed, *vars(sys.modules["itertools"]).values()]
    + [type(iter(plain)) for plain in ([], (), "", set(), {}, range(0), reversed([]))]
    if type(kind) is type
}

# What is made anew from these parts equals the original; without parts, it is encoded as plain data. For these very types alone: a subclass may be equal to something else.
EXACT = {
    id(kind): (tag, parts)
    for kind, tag, parts in (
        (range, "$range", lambda value: [value.start, value.stop, value.step]),
        (Fraction, "$fraction", lambda value: [value.numerator, value.denominator]),
        (Decimal, "$decimal", lambda value: [str(value)]),
        (date, "$date", lambda value: [value.isoformat()]),
        (datetime, "$datetime", lambda value: [value.isoformat()]),
        (time, "$time", lambda value: [value.isoformat()]),
        (timedelta, "$timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
        (deque, "$deque", lambda value: [[*value], value.maxlen]),
        (type({}.keys()), "$keys", lambda value: [*value]),
        (type({}.values()), "$values", lambda value: [*value]),
        (type({}.items()), "$items", lambda value: [*value]),
        (numpy.ndarray, "$array", array_parts),
        (Array, "$array", array_parts),
        (Counter, "$counter", lambda value: [{**value}]),
        (OrderedDict, "$ordered", lambda value: [{**value}]),
        (defaultdict, "$default", lambda value: [{**value}, FACTORY_NAMES.get(id(value.default_factory))]),
        (Drawn, "$iterator", lambda value: [value.generator, value.items, value.error]),
    )
}


def iterator(generator, items, error):
    """An iterator that gives, and raises, what the program's one did."""

    def again():
        yield from decode(items)
        if error is not None:
            raise exception(*error)

    return again() if generator else map(lambda item: item, again())


def array(kind, shape, items):
    if kind not in NUMBERS:
        raise TypeError(f"no array has elements {kind!r}")
    made = numpy.array(decode(items), dtype=kind).reshape(shape)
    return made.view(Array) if job["mode"] == "test" else made


named_types = {}


def named(name, fields, items):
    items = decode(items)
    kind = named_types.get((name, *fields))
    if kind is None:
        try:
            kind = named_types[(name, *fields)] = namedtuple(name, fields)
        except ValueError:  # The names are none that the interpreter allows.
            return tuple(items)
    return kind(*items)


objects = []  # of the value that is decoded


def with_objects(value, table):
    global objects
    objects = [Opaque(kind) for kind, _ in table]
    for made, (_, data) in zip(objects, table):
        for name, item in decode(data or {}).items():
            if type(name) is str and name[:2] != "__" and name != "_rapid_kind":
                made.__dict__[name] = item
    return decode(value)
