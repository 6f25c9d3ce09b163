"""Which task a ground truth means, with the real service's data sets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rapid_verifier import (
    Client,
    GroundTruthError,
    GroundTruthIs,
    Item,
    Unavailable,
    VerifierError,
)


class Array:
    """Stands in for numpy's arrays, which tables of a data set hold."""

    dtype = "object"

    def __init__(self, value: Any) -> None:
        self.value = value

    def tolist(self) -> Any:
        return self.value


def answer(text: str | int | float) -> dict[str, Any]:
    return {"kind": "math", "answer": text}


CODE = {"kind": "code", "entry_point": "f", "tests": [{"args": [1], "expected": None}]}


@pytest.mark.parametrize(
    ("truth", "task"),
    [
        ("7", answer("7")),
        (r" \frac{1}{2} ", answer(r"\frac{1}{2}")),
        (7, answer(7)),
        (0.5, answer(0.5)),
        ("3/4", answer("3/4")),
        ("x/2", answer("x/2")),
        ("60 km/h", answer("60 km/h")),
        ("{1, 2}", answer("{1, 2}")),
        ("[1, 2)", answer("[1, 2)")),
        ("16 - 3 = 13\n13 * 100 = 1,300\n#### 1,300", answer("1300")),
        ("speed/time is the pace #### 5", answer("5")),
        ("#### 1,2", answer("1,2")),
        ("1,300", answer("1,300")),
        (r"km/h is the unit: $\boxed{5}$.", answer(r"km/h is the unit: $\boxed{5}$.")),
        ("\frac12\n", answer("\frac12")),
        ("starter-math/train-1", "starter-math/train-1"),
        (CODE, CODE),
        (json.dumps(CODE), CODE),
        ({**answer("2"), "entry_point": None, "tests": None}, answer("2")),
        (Array("7"), answer("7")),
        (Array(7), answer(7)),
        ({**CODE, "tests": Array([{"args": Array([1]), "expected": None}])}, CODE),
    ],
)
def test_a_ground_truth_means_one_task(client: Client, truth: Any, task: Any) -> None:
    assert client.task_of(truth) == task


@pytest.mark.parametrize(
    ("truth", "reason"),
    [
        ("mbpplus/2", "looks like a task's id, and the service has no data set `mbpplus`"),
        ("speed/time", "may be a task's id or an answer"),
        ("", "empty"),
        ("  ", "empty"),
        ("16 - 3 = 13\n#### 13\nDone.", "several lines follow the last `####` .*"),
        ("16 - 3 = 13\n#### ", "nothing follows the last `####` .*: 16 - 3 = 13"),
        ('{"answer": "2"}', "without `kind`"),
        ({"answer": "2"}, "without `kind`"),
        ("{'kind': 'math', 'answer': '2'}", "looks like a JSON object"),
        ('{"kind": "math"', "looks like a JSON object"),
        (None, "NoneType"),
        (True, "bool"),
        (["2"], "list"),
        (float("nan"), "no number"),
    ],
)
def test_what_could_be_two_things_or_none_is_an_error(
    client: Client, truth: Any, reason: str
) -> None:
    with pytest.raises(GroundTruthError, match=reason):
        client.task_of(truth)


@pytest.mark.parametrize(
    ("truth", "meant", "task"),
    [
        ("speed/time", "answer", answer("speed/time")),
        ("16 - 3 = 13 #### 13", "answer", answer("13")),
        ("starter-math/train-1", "answer", answer("starter-math/train-1")),
        ('{"a"}', "answer", answer('{"a"}')),
        ("mine/2", "task", "mine/2"),
        ("7", "task", "7"),
    ],
)
def test_the_caller_may_say_what_is_meant(
    client: Client, truth: Any, meant: GroundTruthIs, task: Any
) -> None:
    assert client.task_of(truth, ground_truth_is=meant) == task


def test_a_truth_that_contradicts_the_caller_is_an_error(client: Client) -> None:
    with pytest.raises(GroundTruthError, match="says that it is an answer"):
        client.task_of(CODE, ground_truth_is="answer")
    with pytest.raises(GroundTruthError, match="says that it is a task"):
        client.task_of(7, ground_truth_is="task")


def test_the_service_reads_the_box_and_refuses_what_no_completion_matches(client: Client) -> None:
    solution = r"We add 3+4=7, so the answer is $\boxed{7}$."
    assert client.judge([Item(client.task_of(solution), r"\boxed{7}")])[0].reward == 1
    for truth in ["The answer is 7.", "3 + 4 = 7\n7", "\frac12", r"\\frac12"]:
        with pytest.raises(VerifierError, match=r"task\.answer"):
            client.judge([Item(client.task_of(truth), r"\boxed{7}")])


def test_only_a_text_that_may_be_an_id_asks_the_service() -> None:
    with Client("http://127.0.0.1:9", patience_s=0) as nowhere:
        assert nowhere.task_of("3/4") == answer("3/4")
        with pytest.raises(Unavailable):
            nowhere.task_of("starter-math/train-1")
