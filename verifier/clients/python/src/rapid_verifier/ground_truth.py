"""Which task a data set's ground truth means.

A trainer's data set has one column for the truth. It holds a bare label, a whole task, or the id of
a task of the service. What could be two of these is an error: guessed wrongly, it would make every
completion of the task incorrect.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sized
from typing import Any, Literal

from rapid_verifier.errors import GroundTruthError
from rapid_verifier.wire import Task

GroundTruthIs = Literal["auto", "answer", "task"]
"""How to read a ground truth: by its form; always as a math answer; or always as a task."""

ID = re.compile(r"(?P<set>[^\W\d_][\w.-]*)/\S")
"""The beginning of a text that may be a task's id."""
JSON_OBJECT = re.compile(r"""\{\s*["']""")
"""The beginning of a text that is meant as a JSON object, and not as a set in mathematics."""
FINAL_ANSWER = "####"
"""What precedes the answer at the end of a worked solution in GSM8K's form."""
SOLUTION = re.compile(r"####|\\boxed|\\fbox")
"""What only a worked solution has. The service takes the answer from its box."""
THOUSANDS = re.compile(r"[-+$]*[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?")
"""A number with commas between thousands."""
MIN_DATASET_NAME = 3
"""Letters of the shortest name that counts as a data set's if the service has none of this name."""


async def read(
    ground_truth: object,
    dataset_names: Callable[[bool], Awaitable[frozenset[str]]],
    ground_truth_is: GroundTruthIs = "auto",
) -> Task:
    """The task that a ground truth means.

    `dataset_names` returns the names of the service's data sets; with True, it asks again.

    Raises `GroundTruthError`.
    """
    value = _plain(ground_truth)
    if isinstance(value, Mapping):
        return _whole_task(value, ground_truth_is)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _number(value, ground_truth_is)
    if not isinstance(value, str):
        raise GroundTruthError(
            f"a ground truth of the type {type(ground_truth).__name__} means no task: give an "
            "answer as text or number, a task's id, or an object with `kind`"
        )
    text = value.strip()
    if not text:
        raise GroundTruthError("the ground truth is empty, so no completion could be correct")
    if ground_truth_is == "answer":
        return _answer(value)
    if JSON_OBJECT.match(text):
        return _whole_task(_parsed(text), ground_truth_is)
    if ground_truth_is == "task":
        return text
    match = ID.match(text)
    if match is None or SOLUTION.search(text):
        return _answer(value)
    return await _id_or_answer(text, match["set"], dataset_names)


def check_length(name: str, values: Sized, completions: Sized) -> None:
    """Raises `ValueError` unless there is one value for each completion."""
    if len(values) != len(completions):
        raise ValueError(
            f"`{name}` has the length {len(values)}, and there are {len(completions)} completions; "
            "give one value for each"
        )


def _answer(text: str) -> Task:
    """The mathematics problem with this answer, or with what follows its last `####`."""
    # The service refuses what an unescaped command has left before the answer.
    answer = text.rpartition(FINAL_ANSWER)[2].rstrip().lstrip(" ")
    if not answer:
        raise GroundTruthError(
            "nothing follows the last `####` of a ground truth, so no completion could be correct: "
            f"{text[-100:]}"
        )
    if FINAL_ANSWER in text:
        line = answer.lstrip()
        if "\n" in line or "\r" in line:
            raise GroundTruthError(
                "several lines follow the last `####` of a ground truth; leave only the line with "
                f"the answer: {text[-100:]}"
            )
        if THOUSANDS.fullmatch(line):
            answer = line.replace(",", "")
    return {"kind": "math", "answer": answer}


async def _id_or_answer(
    text: str, name: str, dataset_names: Callable[[bool], Awaitable[frozenset[str]]]
) -> Task:
    long = sum(letter.isalpha() for letter in name) >= MIN_DATASET_NAME
    known = name in await dataset_names(False)
    if not known and long:
        # The service may have been started again with more data.
        known = name in await dataset_names(True)
    if known == long:
        return text if known else {"kind": "math", "answer": text}
    if known:
        reason = f"the service has a data set `{name}`, but it may be a quotient too"
    else:
        names = ", ".join(sorted(await dataset_names(False))) or "none"
        reason = (
            f"it looks like a task's id, and the service has no data set `{name}` (only {names})"
        )
    raise GroundTruthError(
        f"the ground truth `{text}` may be a task's id or an answer: {reason}. Set ground_truth_is "
        'to "task" or "answer", or give an answer as {"kind": "math", "answer": …}'
    )


def _whole_task(value: Mapping[str, Any], ground_truth_is: GroundTruthIs) -> Task:
    if not isinstance(value.get("kind"), str):
        keys = ", ".join(map(str, value)) or "none"
        raise GroundTruthError(
            f"the ground truth is an object without `kind` (its fields: {keys}); a whole task has "
            'a `kind`, "math", "code", "program" or "lean"'
        )
    if ground_truth_is == "answer":
        raise GroundTruthError(
            "the ground truth is a whole task, and ground_truth_is says that it is an answer"
        )
    # Tables give each row the fields of all; `null` counts as absent. An `expected` of a test is
    # inside of `tests`, and stays.
    return {key: element for key, element in value.items() if element is not None}


def _number(value: int | float, ground_truth_is: GroundTruthIs) -> Task:
    if ground_truth_is == "task":
        raise GroundTruthError(
            f"the ground truth {value} is a number, and ground_truth_is says that it is a task"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise GroundTruthError(f"the ground truth {value} is no number, so it is no answer")
    return {"kind": "math", "answer": value}


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GroundTruthError(
            f"the ground truth looks like a JSON object, and is not ({error}): {text[:100]}"
        ) from error
    if not isinstance(value, dict):
        raise GroundTruthError(f"the ground truth is JSON, but no object: {text[:100]}")
    return value


def _plain(value: object) -> Any:
    """`value` with the arrays and scalars of numpy, which tables hold, as Python's own."""
    convert = getattr(value, "tolist", None)
    if callable(convert) and hasattr(value, "dtype"):
        value = convert()
    if isinstance(value, Mapping):
        return {key: _plain(element) for key, element in value.items()}
    if isinstance(value, list):
        return [_plain(element) for element in value]
    return value
