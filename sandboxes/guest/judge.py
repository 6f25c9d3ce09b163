"""The tests' instance: runs tests, in which a stub stands for the entry point.

Follows `conversation.py`.
"""

def test():
    """Runs the next test; false where the host has none."""
    source = send(b"N")
    if not source:
        return False
    Opaque.last = None
    try:
        load(source.decode("utf-8"), namespace)
    except BaseException as error:
        kind = Opaque.last
        answer = raised(b"E", error, "" if kind is None else f" (the program returned a value of type {kind}, of which tests see the data at most)")
    else:
        answer = b"Vnull"
    send(answer)
    return True


# One for each answer of the program.
answers = []
stands = None  # What tests have put in place of the library's own, while the program is called.


def stub(*arguments, **keywords):
    """Stands for the entry point: the call happens in the program's instance."""
    global stands
    limits.enter()
    try:
        if stands is not None:
            raise RuntimeError("what stands in place of a function cannot call the program, which waits for it")
        try:
            request = encode([list(arguments), keywords], job["value"], True, opaque=False)
        except (TooLarge, Unsendable) as error:
            # Once the program has returned something, what a test passes on may be made of that.
            if answers:
                why = "it has no encoding" if type(error) is Unsendable else "it is too large or nested too deeply"
                raise TypeError(f"an argument cannot be sent to the program: {why}") from None
            send(raised(b"X", error))
        told = changes()
        stands = told.get("stands", ())
        try:
            reply = send(b"C" + (request[:-1] + b"," + encode(told, job["value"], True) + b"]" if told else request))
            while reply[:1] == b"A":
                reply = send(b"A" + answered(reply[1:], stands))
        finally:
            stands = None
        answers.append(reply[:1])
        if reply[:1] == b"V":
            result, after = parse(reply[1:])
            # Mostly the arguments come back as they were sent, and nothing need be compared.
            if after is not None and not reply.endswith(b"," + request + b"]"):
                after = decode(after)
                update(list(arguments), after[0])
                update(keywords, after[1])
            return decode(result)
        if reply[:1] == b"E":
            raise exception(*parse(reply[1:]))
        raise ValueError("the program returned a value that is too large to be sent")
    finally:
        limits.leave()


def exception(kind, message):
    """What the program raised, as far as there is the like of it here; anything else is a `RuntimeError`, as what ends an iteration is in a generator."""
    name, _, base = kind.partition("(")
    base = EXCEPTIONS.get(base.rstrip(")") or name)
    if base is None or not name.isidentifier():
        return RuntimeError(f"{kind}: {message}")
    made = base if name == base.__name__ else type(name, (base,), {})
    return made(message)


def update(old, new):
    """Makes `old` hold what `new` holds, in place as deep as both have the same form; returns the object to keep."""
    if isinstance(old, list) and type(new) is list or isinstance(old, deque) and type(new) is deque:
        kept = [update(a, b) for a, b in zip(old, new)] + [*new][len(old) :]
        if len(kept) != len(old) or any([a is not b for a, b in zip(kept, old)]):
            old.clear()
            old.extend(kept)
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        keys = {key: key for key in old}
        kept = {keys.get(key, key): update(old[key], item) if key in keys else item for key, item in new.items()}
        if list(kept) != list(old) or any([kept[key] is not old[key] for key in kept]):
            old.clear()
            old.update(kept)
        return old
    if isinstance(old, set) and type(new) is set:
        if old != new:
            old.difference_update(old - new)
            old.update(new)
        return old
    if isinstance(old, bytearray) and type(new) is bytes:
        old[:] = new
        return old
    if isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
        kept = [update(a, b) for a, b in zip(old, new)]
        return old if all([a is b for a, b in zip(kept, old)]) else getattr(old, "_make", tuple)(kept)
    if isinstance(old, numpy.ndarray) and isinstance(new, (list, numpy.ndarray)):
        fresh = numpy.array(new, dtype=old.dtype)
        if fresh.shape == old.shape:
            old[...] = fresh
        return old
    return old if same(old, new) else new


# Of these types, equal values are the same.
PLAIN = (int, str, bytes, bool, type(None))


def same(old, new):
    """Whether `new` is `old`, as it came back: it has the same encoding, a frozenset in any order. Equality would not do: `0.0` equals `-0.0`, nan and a dictionary's
    `values()` equal no copy, and a number of numpy's, or of a class of the test's own, comes back as a plain one."""
    try:
        if type(old) is type(new):
            if type(old) in PLAIN:
                return old == new
            if type(old) is float:
                return decimal(old) == decimal(new)
            if type(old) is frozenset:
                return {encode(item, job["value"], True) for item in old} == {encode(item, job["value"], True) for item in new}
        return encode(old, job["value"], True) == encode(new, job["value"], True)
    except Exception:
        return False
