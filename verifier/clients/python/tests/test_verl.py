"""The reward functions of verl, called as its reward managers call them."""

from __future__ import annotations

import asyncio
import inspect
import json
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

from rapid_verifier import TokenRefused, Unavailable
from rapid_verifier.verl import compute_score, compute_score_async, compute_scores
from service import Service

CODE = {"kind": "code", "entry_point": "f", "tests": [{"args": [1], "expected": 2}]}
TRUTHS = [r"\frac12", json.dumps(CODE), CODE, "starter-math/train-1", 10]
RIGHT = [
    r"\boxed{0.5}",
    "def f(x): return x + 1",
    "def f(x): return 2 * x",
    r"\boxed{10}",
    r"\boxed{10}",
]


def test_every_form_of_ground_truth_is_scored(environment: Service) -> None:
    for truth, right in zip(TRUTHS, RIGHT, strict=True):
        wrong = r"def f(x): return 5 # \boxed{3}"
        assert compute_score("any", right, truth) == 1.0
        assert (
            compute_score(data_source="any", solution_str=wrong, ground_truth=truth, extra_info={})
            == 0.0
        )


def test_the_coroutine_does_the_same_and_verl_knows_that_it_is_one(environment: Service) -> None:
    async def run() -> list[float]:
        # verl adds arguments of its own.
        calls = (
            compute_score_async(
                data_source="any",
                solution_str=right,
                ground_truth=truth,
                extra_info={"question": "Half of one?", "num_turns": None},
                reward_router_address=None,
            )
            for truth, right in zip(TRUTHS, RIGHT, strict=True)
        )
        return await asyncio.gather(*calls)

    assert inspect.iscoroutinefunction(compute_score_async)
    assert not inspect.iscoroutinefunction(compute_score)
    assert asyncio.run(run()) == [1.0] * 5


@pytest.mark.usefixtures("long_window")
def test_calls_of_verls_threads_are_sent_together(environment: Service) -> None:
    requests = environment.requests()
    with ThreadPoolExecutor(32) as threads:
        calls = [threads.submit(compute_score, "any", rf"\boxed{{{n}}}", n % 2) for n in range(32)]
        assert [call.result() for call in calls] == [float(n < 2) for n in range(32)]
    assert environment.requests() - requests <= 8


def test_a_whole_batch_is_scored(service: Service) -> None:
    scores = compute_scores(
        data_sources=["any"] * 6,
        solution_strs=[*RIGHT, "nothing"],
        ground_truths=[*TRUTHS, "2"],
        extra_infos=[{}] * 6,
        url=service.url,
        token=service.token,
    )
    assert scores == [1.0] * 5 + [0.0]


def test_a_column_of_another_length_is_named_with_both_lengths() -> None:
    with pytest.raises(ValueError, match=r"`ground_truths` .* 1, .* 2 comp"):
        compute_scores(["any"] * 2, ["2"] * 2, ["2"], url="http://127.0.0.1:9")
    with pytest.raises(ValueError, match=r"`extra_infos` .* 3, .* 2 comp"):
        compute_scores(["any"] * 2, ["2"] * 2, ["2"] * 2, [{}] * 3, url="http://127.0.0.1:9")


def test_the_prompt_of_extra_info_reaches_the_grader(environment: Service) -> None:
    # An answer that copies the problem is no answer, although its value is right.
    asked: dict[str, Any] = {"prompt": [{"role": "user", "content": "What is 27 + 45?"}]}
    assert compute_score("any", r"\boxed{27 + 45}", "72", asked) == 0.0
    assert compute_score("any", r"\boxed{72}", "72", asked) == 1.0


def test_without_a_verdict_there_is_an_exception_and_no_score() -> None:
    nowhere = "http://127.0.0.1:9"
    with pytest.raises(Unavailable):
        compute_score("any", r"\boxed{2}", "2", url=nowhere, patience_s=0)
    with pytest.raises(Unavailable):
        asyncio.run(compute_score_async("any", "2", "2", url=nowhere, patience_s=0))
    with pytest.raises(Unavailable):
        compute_scores(["any"], ["2"], ["2"], url=nowhere, patience_s=0)


def test_the_exception_arrives_from_a_process(service: Service) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        call = processes.submit(compute_score, "any", "2", "2", url=service.url, token="wrong")
        with pytest.raises(TokenRefused, match="RAPID_VERIFIER_TOKEN"):
            call.result()
