"""A `Rubric` of verifiers 0.2 scores rollouts, and no rollout once the service is killed."""

import asyncio

import verifiers
from rapid_verifier.verifiers import RewardWithheld, reward_func
from service import Service


def state(text: str) -> verifiers.State:
    asked = [{"role": "user", "content": "Half of one?"}]
    given = {"prompt": asked, "answer": "1/2", "example_id": 0, "task": "half"}
    rollout = verifiers.State(input=given, info={}, trajectory=[], **given)
    rollout["completion"] = [{"role": "assistant", "content": text}]
    return rollout


async def main() -> None:
    with Service() as service:
        rubric = verifiers.Rubric(funcs=[reward_func(service.url, service.token, patience_s=0.5)])
        for text, reward in [(r"\boxed{0.5}", 1.0), (r"\boxed{3}", 0.0)]:
            alone = state(text)
            await rubric.score_rollout(alone)
            assert alone["reward"] == reward, alone
        before = service.requests()
        group = [state(rf"\boxed{{{number}/2}}") for number in range(8)]
        await rubric.score_group(group)
        assert [rollout["reward"] for rollout in group] == [float(n == 1) for n in range(8)]
        assert service.requests() - before <= 2

        service.kill()
        for score, scored in [(rubric.score_rollout, state("2")), (rubric.score_group, group[:2])]:
            try:
                await score(scored)
            except RewardWithheld as withheld:
                print(f"no reward: {withheld}")
            else:
                raise AssertionError(scored)


asyncio.run(main())
