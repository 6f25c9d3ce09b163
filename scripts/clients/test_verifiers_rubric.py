"""A `Rubric` of verifiers 0.2 scores rollouts."""

import asyncio

import pytest
import verifiers
from rapid_verifier.verifiers import RewardWithheld, reward_func
from service import Service

PACKAGE = "verifiers"


def state(text: str) -> verifiers.State:
    asked = [{"role": "user", "content": "Half of one?"}]
    given = {"prompt": asked, "answer": "1/2", "example_id": 0, "task": "half"}
    rollout = verifiers.State(input=given, info={}, trajectory=[], **given)
    rollout["completion"] = [{"role": "assistant", "content": text}]
    return rollout


async def score(service: Service) -> None:
    rubric = verifiers.Rubric(funcs=[reward_func(service.url, service.token, patience_s=0.5)])
    for text, reward in [(r"\boxed{0.5}", 1.0), (r"\boxed{3}", 0.0)]:
        alone = state(text)
        await rubric.score_rollout(alone)
        assert alone["reward"] == reward
    before = service.requests()
    group = [state(rf"\boxed{{{number}/2}}") for number in range(8)]
    await rubric.score_group(group)
    assert [rollout["reward"] for rollout in group] == [float(n == 1) for n in range(8)]
    assert service.requests() - before <= 2

    service.kill()
    for scoring, scored in [(rubric.score_rollout, state("2")), (rubric.score_group, group[:2])]:
        with pytest.raises(RewardWithheld):
            await scoring(scored)


def test_a_rubric_gives_rewards_and_ends_once_the_service_is_killed() -> None:
    with Service() as service:
        asyncio.run(score(service))
