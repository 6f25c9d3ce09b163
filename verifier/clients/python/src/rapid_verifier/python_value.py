"""Python values in the tests of a code task, as tagged JSON.

JSON would turn a tuple into a list without a word, and the task into another task.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any

from rapid_verifier.errors import ItemError


def tagged(value: object) -> Any:
    """`value` as JSON; what JSON lacks is an object with one key, such as `{"$tuple": […]}`.

    A dict with only strings as keys stays as it is, so that tagged JSON may be given too.

    Raises `ItemError` for a type without such a form.
    """
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return {"$float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    if isinstance(value, list):
        return [tagged(element) for element in value]
    if isinstance(value, tuple):
        return {"$tuple": [tagged(element) for element in value]}
    if isinstance(value, (set, frozenset)):
        name = "$set" if isinstance(value, set) else "$frozenset"
        return {name: [tagged(element) for element in value]}
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, complex):
        return {"$complex": [tagged(value.real), tagged(value.imag)]}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: tagged(element) for key, element in value.items()}
        return {"$dict": [[tagged(key), tagged(element)] for key, element in value.items()]}
    raise ItemError(
        f"a test of a code task has a value of the type {type(value).__name__}, which has no form "
        "in JSON; use numbers, text, bytes, None, lists, tuples, sets and dicts"
    )
