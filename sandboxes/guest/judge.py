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
        answer = raised(b"E", error, "" if kind is None else f" (the program returned a value of type {kind}, which no test can look into)")
    else:
        answer = b"Vnull"
    send(answer)
    return True


# One for each answer of the program.
answers = []


def stub(*arguments, **keywords):
    """Stands for the entry point: the call happens in the program's instance."""
    limits.enter()
    try:
        try:
            request = encode([list(arguments), keywords], job["value"], True, opaque=False)
        except Unsendable as error:
            # Once the program has returned something, what a test passes on may be made of that.
            if error.args[0] in UNRETURNABLE or answers:
                raise TypeError("a result of the program that has no encoding cannot be passed to it again") from None
            send(raised(b"X", type(error.args[0], (Exception,), {})()))
        reply = send(b"C" + request)
        answers.append(reply[:1])
        if reply[:1] == b"V":
            result, after = parse(reply[1:])
            if after is not None:
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
    if isinstance(old, list) and type(new) is list:
        kept = [update(a, b) for a, b in zip(old, new)] + new[len(old) :]
        if len(kept) != len(old) or any([a is not b for a, b in zip(kept, old)]):
            old[:] = kept
        return old
    if isinstance(old, dict) and type(new) is dict:
        kept = {key: update(old[key], item) if key in old else item for key, item in new.items()}
        if list(kept) != list(old) or any([kept[key] is not old[key] for key in kept]):
            old.clear()
            old.update(kept)
        return old
    if isinstance(old, set) and type(new) is set:
        if old != new:
            old.clear()
            old.update(new)
        return old
    if isinstance(old, deque) and type(new) is deque:
        if list(old) != list(new):
            old.clear()
            old.extend(new)
        return old
    if isinstance(old, bytearray) and type(new) is bytes:
        old[:] = new
        return old
    if isinstance(old, tuple) and type(new) is tuple and len(old) == len(new):
        kept = [update(a, b) for a, b in zip(old, new)]
        return old if all([a is b for a, b in zip(kept, old)]) else new
    if isinstance(old, numpy.ndarray) and type(new) is list:
        fresh = numpy.array(new, dtype=old.dtype)
        if fresh.shape == old.shape:
            old[...] = fresh
        return old
    if type(old) is type(new) and not isinstance(old, Opaque):
        try:
            if old == new and (type(old) is not float or math.copysign(1.0, old) == math.copysign(1.0, new)):
                return old
        except Exception:
            pass
    return new
