"""Reward functions for verl: `custom_reward_function.path=pkg://rapid_verifier.verl`.

verl turns some failures into the reward 0 by itself, which no reward function can prevent: its
reward managers `rate_limited` and `prime` do so with every exception, and any manager with a time
limit for a score (`compute_score_timeout`, `reward.timeout`) when it expires. Use `naive`, `dapo`,
`gdpo` or `batch`, without such a limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rapid_verifier import micro_batch
from rapid_verifier.ground_truth import GroundTruthIs, check_length
from rapid_verifier.messages import completion_text, prompt_text
from rapid_verifier.wire import Item

PROMPT_FIELDS = ("prompt", "question", "problem")
"""The fields of `extra_info` that may hold the prompt. The first that is there counts."""


def compute_score(
    data_source: object,
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, Any] | None = None,
    *,
    url: str | None = None,
    token: str | None = None,
    patience_s: float = 600.0,
    ground_truth_is: GroundTruthIs = "auto",
    **kwargs: object,
) -> float:
    """The reward of a completion, 1 or 0. Concurrent calls are sent together.

    `url`, `token`, `patience_s` and `ground_truth_is` may be set as
    `custom_reward_function.reward_kwargs`. `data_source` and further arguments are not used.

    Raises `Unavailable` without a verdict, which stops the step, and other `VerifierError`s.
    """
    batcher = micro_batch.shared(url, token, patience_s=patience_s)
    prompt = _prompt(extra_info)
    return batcher.score(ground_truth, completion_text(solution_str), prompt, ground_truth_is)


async def compute_score_async(
    data_source: object,
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, Any] | None = None,
    *,
    url: str | None = None,
    token: str | None = None,
    patience_s: float = 600.0,
    ground_truth_is: GroundTruthIs = "auto",
    **kwargs: object,
) -> float:
    """As `compute_score`, as a coroutine. verl awaits it."""
    batcher = micro_batch.shared(url, token, patience_s=patience_s)
    prompt = _prompt(extra_info)
    text = completion_text(solution_str)
    return await batcher.score_async(ground_truth, text, prompt, ground_truth_is)


def compute_scores(
    data_sources: Sequence[object],
    solution_strs: Sequence[str],
    ground_truths: Sequence[object],
    extra_infos: Sequence[Mapping[str, Any] | None] | None = None,
    *,
    url: str | None = None,
    token: str | None = None,
    patience_s: float = 600.0,
    ground_truth_is: GroundTruthIs = "auto",
    **kwargs: object,
) -> list[float]:
    """The rewards of a whole batch, for verl's reward manager `batch`.

    Raises `Unavailable` if any completion gets no verdict, and `ValueError` if `ground_truths` or
    `extra_infos` has another length than `solution_strs`.
    """
    infos = [None] * len(solution_strs) if extra_infos is None else list(extra_infos)
    check_length("ground_truths", ground_truths, solution_strs)
    check_length("extra_infos", infos, solution_strs)
    client = micro_batch.shared(url, token, patience_s=patience_s).client
    items = [
        Item(
            client.task_of(truth, ground_truth_is=ground_truth_is),
            completion_text(solution),
            _prompt(info),
        )
        for solution, truth, info in zip(solution_strs, ground_truths, infos, strict=True)
    ]
    return [judgement.required() for judgement in client.judge(items)]


def _prompt(extra_info: Mapping[str, Any] | None) -> str:
    for field in PROMPT_FIELDS:
        value = (extra_info or {}).get(field)
        if value is not None:
            return prompt_text(value)
    return ""
