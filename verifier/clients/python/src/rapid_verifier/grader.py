"""A reward function as a grader of rapid-verifier.

The last line of `reward.py` is `rapid_verifier.serve(reward)`, and the verifier's configuration has

    [graders.NAME]
    command = ["python3", "reward.py"]

A file without that line is served by `command = ["python3", "-m", "rapid_verifier", "reward.py",
"reward"]`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TextIO

LABELS = ("ground_truth", "label", "answer", "solution")
"""The columns that may hold what verl calls the ground truth."""

Reward = Callable[..., Any]


def serve(function: Reward) -> None:
    """Answers the verifier's items with the rewards of `function`, until there are no more.

    `function` has one of these signatures, and may omit the parameters that it does not need:

    - `reward(prompt, completion, **columns)`, with the other fields of the task as `columns`
    - TRL's `reward(prompts, completions, **columns)`, which returns a list
    - verl's `compute_score(data_source, solution_str, ground_truth, extra_info)`

    It returns a number from 0 to 1, or a dictionary with `reward` (or `score`), `terms` and
    `detail`. Other numbers in the dictionary are terms too. It may be a coroutine function. If it
    raises an exception, or returns `None`, the completion gets no reward, and training leaves it
    out. What it prints goes to the verifier's log.
    """
    call = _caller(function)
    items, answers = _streams()
    for line in items:
        item = json.loads(line)
        try:
            answer = json.dumps({"id": item["id"], **_answer(call(item))})
        except Exception as error:
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}"
            answer = json.dumps({"id": item["id"], "error": reason[:1000]})
        print(answer, file=answers, flush=True)


def _streams() -> tuple[TextIO, TextIO]:
    """Standard input and output, which the function cannot reach: it prints to standard error."""
    items = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return items, answers


def _caller(function: Reward) -> Callable[[Mapping[str, Any]], Any]:
    """What calls `function` with an item, according to the names of its parameters."""
    parameters = inspect.signature(function).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    loop = asyncio.new_event_loop() if inspect.iscoroutinefunction(function) else None

    def run(arguments: Mapping[str, Any]) -> Any:
        known = {k: v for k, v in arguments.items() if takes_all or k in parameters}
        result = function(**known)
        return result if loop is None else loop.run_until_complete(result)

    def of_prompt(item: Mapping[str, Any]) -> Any:
        own = {"prompt": item["prompt"], "completion": item["completion"]}
        return run({**_columns(item), **own})

    def of_trl(item: Mapping[str, Any]) -> Any:
        own = {"prompts": [item["prompt"]], "completions": [item["completion"]]}
        rewards = run({**{k: [v] for k, v in _columns(item).items()}, **own})
        return rewards[0]

    def of_verl(item: Mapping[str, Any]) -> Any:
        columns = _columns(item)
        truth = next((columns[name] for name in LABELS if name in columns), None)
        own = {
            "data_source": columns.get("data_source"),
            "solution_str": item["completion"],
            "ground_truth": truth,
            "extra_info": columns.get("extra_info", {**columns, "prompt": item["prompt"]}),
        }
        return run({**columns, **own})

    if "solution_str" in parameters:
        return of_verl
    return of_trl if "completions" in parameters else of_prompt


def _columns(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item["task"].items() if name != "kind"}


def _answer(result: Any) -> dict[str, Any]:
    """The fields of the answer for what a function returned."""
    if result is None:
        return {"error": "the function returned None"}
    if not isinstance(result, Mapping):
        return {"reward": _number(result)}
    left = dict(result)
    reward = left.pop("reward", None)
    score = left.pop("score", None)
    if reward is None and score is None:
        return {"error": f"the function returned no `reward`, only {', '.join(map(str, result))}"}
    answer: dict[str, Any] = {"reward": _number(score if reward is None else reward)}
    if "detail" in left:
        answer["detail"] = left.pop("detail")
    terms = {**left.pop("terms", {}), **left}
    numbers = {name: value for name, value in terms.items() if isinstance(value, (int, float))}
    answer["terms"] = {name: _number(value) for name, value in numbers.items()}
    return answer


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"the function returned {number}")
    return number
