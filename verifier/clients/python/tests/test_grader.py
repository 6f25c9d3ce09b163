"""`serve` and `python3 -m rapid_verifier`: a reward function as a process that answers lines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FUNCTIONS = """
import asyncio

def plain(prompt, completion, most):
    print("judging", input)
    return len(completion) / most

def terms(completion, **columns):
    return {"reward": 1, "style": 0.5, "detail": sorted(columns)}

def trl(prompts, completions, most, **columns):
    return [float(len(c) < m) for c, m in zip(completions, most)]

def verl(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": float(solution_str == ground_truth), "acc": True}

async def slow(completion):
    await asyncio.sleep(0)
    return 0.25

def none(completion):
    return None

def nan(completion):
    return float("nan")

def empty(completion):
    return {"acc": 1}

def fails(completion):
    raise ValueError("no key")
"""


def answers(tmp_path: Path, function: str, completions: list[str]) -> list[dict[str, Any]]:
    """The answers of a function's process, which are for these completions."""
    path = tmp_path / "reward.py"
    path.write_text(FUNCTIONS)
    task = {"kind": "brief", "most": 10, "answer": "abc"}
    items = [
        {"id": number, "task": task, "prompt": "p", "completion": completion}
        for number, completion in enumerate(completions)
    ]
    done = subprocess.run(
        [sys.executable, "-m", "rapid_verifier", str(path), function],
        input="".join(json.dumps(item) + "\n" for item in items),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line.pop("id") for line in lines] == list(range(len(completions)))
    return lines


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("plain", {"reward": 0.3}),
        ("terms", {"reward": 1.0, "terms": {"style": 0.5}, "detail": ["answer", "most", "prompt"]}),
        ("trl", {"reward": 1.0}),
        ("verl", {"reward": 1.0, "terms": {"acc": 1.0}}),
        ("slow", {"reward": 0.25}),
        ("none", {"error": "the function returned None"}),
        ("nan", {"error": "ValueError: the function returned nan"}),
        ("empty", {"error": "the function returned no `reward`, only acc"}),
        ("fails", {"error": "ValueError: no key"}),
    ],
)
def test_a_function_answers_each_item(
    tmp_path: Path, function: str, expected: dict[str, Any]
) -> None:
    # The second is answered too, whatever became of the first.
    first, _ = answers(tmp_path, function, ["abc", "abcdef"])
    assert first == expected


def test_a_function_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        answers(tmp_path, "missing", ["abc"])
    assert "has no function `missing`" in refused.value.stderr
