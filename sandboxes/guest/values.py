"""The encoding of values, which is the one of `datasets::Value`: JSON, with tags for what JSON lacks. Between two instances of the interpreter there are tags of their own
besides, for what only an interpreter can compare (`between.py`).

The files of the harness, of which this is the first (`HARNESS` in `src/protocol/mod.rs`), are executed as one, once, while the interpreter is warmed, in a namespace with a
private copy of the builtins. Everything that they need is bound there before any program runs, so that a program that patches `builtins`, `json`
or `sys.modules` changes nothing for them. A program that digs into the interpreter can still make the harness lie: about that program's
own results, which is all that the host ever asks it for.

The encoder reads the data of a built-in type through that type's own methods, never through a method that a subclass may have overridden.
"""

import binascii
import builtins
import marshal
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction

import _host
import _json
import numpy

send = _host.call

DEPTH = 36  # each level takes up to three brackets, and parsers stop at 128
PIECE = 1 << 15  # bytes of a long value that are sent at a time
SLICE = 1 << 11  # elements of a long list that are written together
INT64_LOW, INT64_HIGH = -(2**63), 2**63 - 1

mro_of = type.__dict__["__mro__"].__get__
name_of = type.__dict__["__name__"].__get__
dict_of = type.__dict__["__dict__"].__get__
exception_args = BaseException.__dict__["args"].__get__
array_tolist = numpy.ndarray.tolist
scalar_item = numpy.generic.item
digits, decimal = int.__repr__, float.__repr__
set_digits, get_digits = sys.set_int_max_str_digits, sys.get_int_max_str_digits
set_recursion, get_recursion = sys.setrecursionlimit, sys.getrecursionlimit
quote = _json.encode_basestring
dumps = marshal.dumps
to_base64, from_base64 = binascii.b2a_base64, binascii.a2b_base64


class ScannerSettings:
    strict = True
    array_hook = None
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = None


scan = _json.make_scanner(ScannerSettings)


class TooLarge(Exception):
    """The encoding is longer or deeper than the limit."""


class Unsendable(Exception):
    """A value that has no encoding; its argument is the type's name."""


def type_name(value):
    name = name_of(type(value))
    return str.__str__(name)[:100] if type(name) is str else "object"


class Encoder:
    """Writes the pieces of one JSON text. After each `limit` bytes it sends them ahead (`P`), or, where they must stay together, raises `TooLarge`."""

    __slots__ = ("parts", "size", "limit", "together", "opaque", "objects", "places")

    def __init__(self, limit, together, opaque=True):
        self.parts = []
        self.size = 0
        self.limit = limit
        self.together = together
        self.opaque = opaque
        # Objects of the program's own classes: a value has their numbers, and behind it stand their attributes.
        self.objects = []
        self.places = {}

    def put(self, text):
        self.size += len(text) if text.isascii() else len(text.encode("utf-8"))
        self.parts.append(text)
        if self.size > self.limit:
            if self.together:
                raise TooLarge
            taken = self.take()
            for start in range(0, len(taken), PIECE):
                send(b"P" + taken[start : start + PIECE])

    def take(self):
        taken = "".join(self.parts).encode("utf-8")
        self.parts = []
        self.size = 0
        return taken

    def text(self, value):
        try:
            self.put(quote(value))
        except UnicodeEncodeError:
            self.no_encoding("str with lone surrogates")

    def no_encoding(self, kind):
        if not self.opaque:
            raise Unsendable(kind)
        kind = quote(kind.encode("utf-8", "replace").decode("utf-8"))
        self.put(f'{{"$opaque":{kind}}}')

    def integer(self, value):
        self.put(digits(value) if INT64_LOW <= value <= INT64_HIGH else f'{{"$int":"{digits(value)}"}}')

    def float(self, value):
        if value - value == 0.0:
            self.put(decimal(value))
        elif value != value:
            self.put('{"$float":"nan"}')
        else:
            self.put('{"$float":"inf"}' if value > 0.0 else '{"$float":"-inf"}')

    def sequence(self, tag, items, depth):
        """`items` is a plain list or tuple, which no program's code changes while it is read."""
        self.put(tag + "[" if tag else "[")
        if len(items) <= SLICE:
            self.elements(items, depth)
        else:
            for start in range(0, len(items), SLICE):
                if start:
                    self.put(",")
                self.elements(items[start : start + SLICE], depth)
        self.put("]}" if tag else "]")

    def elements(self, items, depth):
        """With commas between."""
        flat = None
        kind = type(items[0]) if items else None
        # `quote` and `decimal` read the data of subclasses too, and raise a `TypeError` where an item is of another type.
        try:
            if kind is str:
                flat = ",".join(map(quote, items))
            elif kind is float:
                flat = ",".join(map(decimal, items))
                if "n" in flat:  # nan or inf
                    flat = None
            elif kind is int and set(map(id, map(type, items))) == INT:
                if INT64_LOW <= min(items) and max(items) <= INT64_HIGH:
                    flat = ",".join(map(digits, items))
        except TypeError:
            flat = None
        if flat is not None:
            try:
                self.put(flat)
            except UnicodeEncodeError:
                flat = None
        if flat is None:
            first = True
            for item in items:
                if first:
                    first = False
                else:
                    self.put(",")
                self.value(item, depth)

    def mapping(self, value, depth):
        items = [*dict.items(value)]  # not `dict.copy`, which asks a subclass for its keys
        plain = True
        for key, _ in items:
            if type(key) is not str or key[:1] == "$" or not key.isascii():
                plain = False
                break
        self.put("{" if plain else '{"$dict":[')
        first = True
        for key, item in items:
            if first:
                first = False
            else:
                self.put(",")
            if plain:
                self.text(key)
                self.put(":")
                self.value(item, depth)
            else:
                self.put("[")
                self.value(key, depth)
                self.put(",")
                self.value(item, depth)
                self.put("]")
        self.put("}" if plain else "]}")

    def value(self, value, depth=0):
        kind = type(value)
        if kind is int:
            return self.integer(value)
        if kind is str:
            return self.text(value)
        if kind is float:
            return self.float(value)
        if value is None:
            return self.put("null")
        if kind is bool:
            return self.put("true" if value else "false")
        depth += 1
        if depth > DEPTH:
            raise TooLarge
        if self.together and id(kind) not in BUILT_IN:
            exact = EXACT.get(id(kind))
            parts = exact and exact[1](value)
            if parts is not None:
                return self.sequence(f'{{"{exact[0]}":', parts, depth)
            fields = fields_of(kind)
            if fields is not None:
                return self.sequence('{"$named":', [type_name(value), fields, [*tuple.__iter__(value)]], depth)
        for base in mro_of(kind):
            encode = ENCODERS.get(id(base))
            if encode is not None:
                return encode(self, value, depth)
        if self.together and self.opaque and is_own(kind):
            return self.object(value)
        return self.no_encoding(type_name(value))

    def object(self, value):
        place = self.places.get(id(value))
        if place is None:
            if len(self.objects) == OBJECTS:
                return self.no_encoding(type_name(value))
            place = self.places[id(value)] = len(self.objects)
            self.objects.append(value)
        self.put(f'{{"$object":{place}}}')

    def attributes(self):
        """Puts the attributes of all objects behind the value; none of an object where they are too large or nested too deeply."""
        self.parts.insert(0, '{"$objects":[')
        self.put(",[")
        limit = self.limit
        for place, value in enumerate(self.objects):
            kind = quote(type_name(value).encode("utf-8", "replace").decode("utf-8"))
            self.put(f"{',' if place else ''}[{kind},")
            parts, size = len(self.parts), self.size
            try:
                self.limit = limit // 2
                self.mapping(data_of(value), 1)
            except TooLarge:
                del self.parts[parts:]
                self.size = size
                self.parts.append("null")
            self.limit = limit
            self.put("]")
        self.put("]]}")

    def array(self, value, depth):
        value = array_tolist(value)
        if type(value) is list:
            self.value(value, depth - 1)
        else:
            self.scalar(value, depth)

    def scalar(self, value, depth):
        """What numpy made of one of its scalars: one of Python's own, or itself where there is none."""
        for base in mro_of(type(value)):
            if base is numpy_generic:
                return self.no_encoding(type_name(value))
        self.value(value, depth - 1)

    def complex(self, value, depth):
        value = complex.__complex__(value)
        self.put('{"$complex":[')
        self.float(value.real)
        self.put(",")
        self.float(value.imag)
        self.put("]}")

    def bytes(self, value, depth):
        self.put(f'{{"$bytes":"{to_base64(value, newline=False).decode("ascii")}"}}')

    def byte_array(self, value, depth):
        if type(value) is bytearray:
            self.bytes(value, depth)
        else:
            self.no_encoding(type_name(value))


numpy_generic = numpy.generic
INT = {id(int)}
BUILT_IN = {id(kind) for kind in (list, tuple, dict, set)}

# By identity: a look-up by the class itself would call its metaclass's `__hash__`.
ENCODERS = {
    id(base): encode
    for base, encode in (
        (int, lambda self, value, depth: self.integer(int.__int__(value))),
        (float, lambda self, value, depth: self.float(float.__float__(value))),
        (str, lambda self, value, depth: self.text(str.__str__(value))),
        (complex, Encoder.complex),
        (list, lambda self, value, depth: self.sequence("", list.copy(value), depth)),
        (tuple, lambda self, value, depth: self.sequence('{"$tuple":', value if type(value) is tuple else [*tuple.__iter__(value)], depth)),
        (set, lambda self, value, depth: self.sequence('{"$set":', [*set.__iter__(value)], depth)),
        (frozenset, lambda self, value, depth: self.sequence('{"$frozenset":', [*frozenset.__iter__(value)], depth)),
        (dict, Encoder.mapping),
        (bytes, lambda self, value, depth: self.bytes(bytes.__bytes__(value), depth)),
        (bytearray, Encoder.byte_array),
        (numpy.generic, lambda self, value, depth: self.scalar(scalar_item(value), depth)),
        (numpy.ndarray, Encoder.array),
    )
}


def encode(value, limit, together, opaque=True):
    encoder = Encoder(limit, together, opaque)
    encoder.value(value)
    if encoder.objects:
        encoder.attributes()
    return encoder.take()


def decode(value):
    kind = type(value)
    if kind is list:
        return [decode(item) for item in value]
    if kind is not dict:
        return value
    if len(value) == 1:
        ((tag, body),) = value.items()
        decoder = DECODERS.get(tag)
        if decoder is not None:
            return decoder(body)
    return {key: decode(item) for key, item in value.items()}


DECODERS = {
    "$tuple": lambda body: tuple([decode(item) for item in body]),
    "$set": lambda body: {decode(item) for item in body},
    "$frozenset": lambda body: frozenset([decode(item) for item in body]),
    "$dict": lambda body: {decode(key): decode(item) for key, item in body},
    "$bytes": lambda body: from_base64(body),
    "$complex": lambda body: complex(decode(body[0]), decode(body[1])),
    "$float": float,
    "$int": int,
    "$opaque": lambda body: Opaque(body),
    "$range": lambda body: range(*decode(body)),
    "$fraction": lambda body: Fraction(*decode(body)),
    "$decimal": lambda body: Decimal(*body),
    "$date": lambda body: date.fromisoformat(*body),
    "$datetime": lambda body: datetime.fromisoformat(*body),
    "$time": lambda body: time.fromisoformat(*body),
    "$timedelta": lambda body: timedelta(*body),
    "$deque": lambda body: deque(decode(body[0]), body[1]),
    "$keys": lambda body: {decode(key): None for key in body}.keys(),
    "$values": lambda body: dict(enumerate(decode(body))).values(),
    "$items": lambda body: dict(decode(body)).items(),
    "$iterator": lambda body: iterator(*body),
    "$array": lambda body: array(*body),
    "$named": lambda body: named(*body),
    "$counter": lambda body: Counter(decode(body[0])),
    "$ordered": lambda body: OrderedDict(decode(body[0])),
    "$default": lambda body: defaultdict(FACTORIES.get(body[1]), decode(body[0])),
    "$objects": lambda body: with_objects(*body),
    "$object": lambda body: objects[body],
}


def parse(payload):
    try:
        return scan(payload.decode("utf-8"), 0)[0]
    except StopIteration:
        # The scanner's own; it would end a loop of the tests.
        raise ValueError("a reply that does not begin with a value") from None
