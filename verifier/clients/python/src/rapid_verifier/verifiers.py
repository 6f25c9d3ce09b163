"""Reward functions for the library `verifiers`.

Up to version 0.2, its `Rubric` turns each exception of a reward function into the reward 0. It does
not catch a cancellation, so `reward` raises one: the rollout ends without a reward. From version
0.3 on, a failed reward function is recorded as an error of the rollout, and `task_reward` raises
the error itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from rapid_verifier import micro_batch
from rapid_verifier.errors import GroundTruthError, VerifierError
from rapid_verifier.ground_truth import GroundTruthIs
from rapid_verifier.messages import completion_text, prompt_text

log = logging.getLogger(__name__)


class RewardWithheld(asyncio.CancelledError):
    """There is no reward, for the reason in `__cause__`.

    It is a cancellation, since `except Exception` must not turn it into a reward.
    """


def reward_func(
    url: str | None = None,
    token: str | None = None,
    *,
    ground_truth_is: GroundTruthIs = "auto",
    name: str = "rapid_verifier",
    batch: int = 32,
    in_flight: int = 4,
    patience_s: float = 600.0,
) -> Callable[..., Awaitable[float]]:
    """A reward function for `Rubric(funcs=[…])`, as `reward`. The name is that of its metric.

    The other parameters are those of `Client`.
    """

    async def reward(
        prompt: object, completion: object, answer: object, state: object, **kwargs: object
    ) -> float:
        try:
            batcher = micro_batch.shared(
                url, token, batch=batch, in_flight=in_flight, patience_s=patience_s
            )
            return await batcher.score_async(
                answer, completion_text(completion), prompt_text(prompt), ground_truth_is
            )
        except VerifierError as error:
            # The library logs a cancellation without its reason.
            log.error("a rollout gets no reward: %s", error)
            raise RewardWithheld(str(error)) from error

    reward.__name__ = name
    return reward


_reward = reward_func()


async def reward(
    prompt: object, completion: object, answer: object, state: object, **kwargs: object
) -> float:
    """The reward of a rollout, 1 or 0. Concurrent calls are sent together.

    The service is the one in the environment, `RAPID_VERIFIER` and `RAPID_VERIFIER_TOKEN`.

    Raises `RewardWithheld` without a verdict, and for every other error of this package.
    """
    return await _reward(prompt, completion, answer, state, **kwargs)


async def task_reward(task: Any, trace: Any) -> float:
    """The reward of a trace, for versions from 0.3 on: `rewards.NAME.fn` of a task's settings.

    The ground truth is the field `answer` of the task. The completion is the trace's last reply.
    The service is the one in the environment.

    Raises `VerifierError`.
    """
    answer = getattr(task, "answer", None)
    if answer is None:
        raise GroundTruthError("the task has no field `answer`, so its ground truth is unknown")
    batcher = micro_batch.shared(None, None)
    return await batcher.score_async(answer, str(trace.last_reply), str(task.prompt_text))
