"""A `Rubric` of verifiers 0.2 scores rollouts."""

import asyncio

import pytest
import verifiers
from overload import TRUTH, at_once, completion, overloaded, right_or_missing
from rapid_verifier.verifiers import RewardWithheld, reward_func
from service import Service

PACKAGE = "verifiers"


def state(text: str, answer: str = "1/2") -> verifiers.State:
    asked = [{"role": "user", "content": "Half of one?"}]
    given = {"prompt": asked, "answer": answer, "example_id": 0, "task": "half"}
    rollout = verifiers.State(input=given, info={}, trajectory=[], **given)
    rollout["completion"] = [{"role": "assistant", "content": text}]
    return rollout


def rubric(service: Service, patience_s: float = 0.5) -> verifiers.Rubric:
    return verifiers.Rubric(funcs=[reward_func(service.url, service.token, patience_s=patience_s)])


GROUP = [rf"\boxed{{{number}/2}}" for number in range(8)]
RIGHT = [float(number == 1) for number in range(8)]


async def group_rewards(rubric: verifiers.Rubric) -> list[float]:
    group = [state(text) for text in GROUP]
    await rubric.score_group(group)
    return [rollout["reward"] for rollout in group]


async def score(service: Service) -> None:
    scored = rubric(service)
    for text, reward in [(r"\boxed{0.5}", 1.0), (r"\boxed{3}", 0.0)]:
        alone = state(text)
        await scored.score_rollout(alone)
        assert alone["reward"] == reward
    before = service.requests()
    assert await group_rewards(scored) == RIGHT
    assert service.requests() - before <= 2

    service.kill()
    with pytest.raises(RewardWithheld):
        await scored.score_rollout(state("2"))
    with pytest.raises(RewardWithheld):
        await group_rewards(scored)


def test_a_rubric_gives_rewards_and_ends_once_the_service_is_killed() -> None:
    with Service() as service:
        asyncio.run(score(service))


def test_a_service_that_is_killed_and_restarted_meanwhile_gives_the_same_rewards() -> None:
    with Service() as service, service.outage():
        assert asyncio.run(group_rewards(rubric(service, patience_s=60))) == RIGHT


def test_under_overload_a_rubric_gives_the_right_reward_or_ends() -> None:
    with overloaded() as service:

        def ask(number: int) -> float | None:
            rollout = state(completion(number), TRUTH)
            try:
                asyncio.run(rubric(service).score_rollout(rollout))
            except RewardWithheld:
                assert rollout.get("reward") is None
                return None
            return rollout["reward"]

        right_or_missing(service, at_once(ask))
