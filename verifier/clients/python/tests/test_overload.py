"""While the service's queue is full, each way to ask gives a reward that is right, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from overload import TRUTH, at_once, completion, overloaded, right_or_missing
from rapid_verifier import Client, Unavailable
from rapid_verifier.env import Observation, SingleTurnEnv, SkyRLEnv
from rapid_verifier.trl import reward_func as trl_reward_func
from rapid_verifier.verifiers import RewardWithheld
from rapid_verifier.verifiers import reward_func as verifiers_reward_func
from rapid_verifier.verl import compute_score, compute_scores
from service import Service

ONCE = 0.0
"""The patience of a client that does not repeat what is refused."""


def with_client(service: Service, number: int) -> float | None:
    with Client(service.url, service.token, patience_s=ONCE) as client:
        [judgement] = client.verify(client.task_of(TRUTH), [completion(number)])
        return judgement.reward


def with_verl(service: Service, number: int) -> float | None:
    text = completion(number)
    return compute_score("any", text, TRUTH, url=service.url, token=service.token, patience_s=ONCE)


def with_verl_batch(service: Service, number: int) -> float | None:
    texts = [completion(number)]
    [score] = compute_scores(
        ["any"], texts, [TRUTH], url=service.url, token=service.token, patience_s=ONCE
    )
    return score


def with_trl(service: Service, number: int) -> float | None:
    reward = trl_reward_func(service.url, service.token, column="task", patience_s=ONCE)
    [score] = reward(prompts=["p"], completions=[completion(number)], task=[TRUTH])
    return score


def with_verifiers(service: Service, number: int) -> float | None:
    reward = verifiers_reward_func(service.url, service.token, patience_s=ONCE)
    said = [{"role": "assistant", "content": completion(number)}]

    async def score() -> float | None:
        try:
            return await reward("p", said, TRUTH, {})
        except RewardWithheld:
            return None

    return asyncio.run(score())


def with_open_env(service: Service, number: int) -> float | None:
    env: SingleTurnEnv[Observation] = SingleTurnEnv(
        [("p", TRUTH)], service.url, service.token, patience_s=ONCE
    )
    env.reset()
    return env.step(completion(number)).reward


def with_skyrl(service: Service, number: int) -> float | None:
    config = {"url": service.url, "token": service.token, "patience_s": ONCE}
    env = SkyRLEnv(config, {"reward_spec": {"ground_truth": TRUTH}})
    env.init([{"role": "user", "content": "p"}])
    reward: float = env.step(completion(number))["reward"]
    return reward


WAYS: list[Callable[[Service, int], float | None]] = [
    with_client,
    with_verl,
    with_verl_batch,
    with_trl,
    with_verifiers,
    with_open_env,
    with_skyrl,
]


@pytest.mark.parametrize("ask", WAYS)
def test_under_overload_a_reward_is_right_or_missing(
    ask: Callable[[Service, int], float | None],
) -> None:
    def asked(number: int) -> float | None:
        try:
            return ask(service, number)
        except Unavailable:
            return None

    with overloaded() as service:
        right_or_missing(service, at_once(asked))
