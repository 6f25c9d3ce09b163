"""The reward functions of `verifiers`, called as its rubrics and tasks call them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from rapid_verifier import GroundTruthError, Unavailable
from rapid_verifier.verifiers import RewardWithheld, reward, reward_func, task_reward
from service import Service

PROMPT = [{"role": "user", "content": "Half of one?"}]


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


async def call_of_a_rubric(function: Callable[..., Awaitable[float]], **arguments: Any) -> float:
    """What `Rubric` does with a reward function, up to version 0.2."""
    try:
        return float(await function(**arguments))
    except Exception:
        return 0.0


def test_a_rollout_gets_its_reward(environment: Service) -> None:
    async def run() -> list[float]:
        calls = (
            call_of_a_rubric(
                reward,
                prompt=PROMPT,
                completion=said(text),
                answer=r"\frac12",
                state={},
                info={},
                task="default",
                parser=None,
            )
            for text in [r"\boxed{0.5}", r"\boxed{5}"]
        )
        return await asyncio.gather(*calls)

    assert asyncio.run(run()) == [1.0, 0.0]
    assert reward.__name__ == "reward"
    assert reward_func(name="correct").__name__ == "correct"


@pytest.mark.parametrize("answer", ["2", "", "nowhere/2"])
def test_without_a_verdict_no_rubric_makes_a_0_of_it(answer: str) -> None:
    function = reward_func("http://127.0.0.1:9", patience_s=0)

    async def run() -> None:
        await call_of_a_rubric(
            function, prompt=PROMPT, completion=said("2"), answer=answer, state={}
        )

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())

    async def caught() -> BaseException | None:
        try:
            await function(prompt=PROMPT, completion=said("2"), answer=answer, state={})
        except RewardWithheld as withheld:
            return withheld.__cause__
        return None

    assert isinstance(asyncio.run(caught()), GroundTruthError if answer == "" else Unavailable)


@dataclass
class Task:
    answer: Any
    prompt_text: str = "Half of one?"


@dataclass
class Trace:
    last_reply: str


def test_a_trace_gets_its_reward(environment: Service) -> None:
    assert asyncio.run(task_reward(Task("1/2"), Trace(r"\boxed{0.5}"))) == 1.0
    assert asyncio.run(task_reward(Task("1/2"), Trace(r"\boxed{5}"))) == 0.0
    with pytest.raises(GroundTruthError):
        asyncio.run(task_reward(Task(None), Trace("2")))
