"""The environments, used as OpenEnv and SkyRL-gym use them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from rapid_verifier import GroundTruthError, Unavailable
from rapid_verifier.env import Observation, SingleTurnEnv, SkyRLEnv
from service import Service

TASKS = [("Half of one?", r"\frac12"), ("How much is 13 minus 3?", "starter-math/train-1")]


@dataclass
class Action:
    completion: str


def test_an_episode_is_a_prompt_and_a_completion(environment: Service) -> None:
    env: SingleTurnEnv[Observation] = SingleTurnEnv(TASKS)
    seen = env.reset(seed=0, episode_id="one")
    assert (seen.prompt, seen.done, seen.reward) == ("Half of one?", False, None)
    seen = env.step(r"\boxed{0.5}", timeout_s=10)
    assert (seen.done, seen.reward, seen.metadata["verdict"]) == (True, 1.0, "correct")
    assert (env.state.episode_id, env.state.step_count) == ("one", 1)
    with pytest.raises(RuntimeError, match="reset"):
        env.step("again")
    assert env.reset().prompt == "How much is 13 minus 3?"
    assert env.step(Action(r"\boxed{9}")).reward == 0.0
    assert env.reset().prompt == "Half of one?"
    env.close()


@pytest.mark.usefixtures("long_window")
def test_coroutines_of_many_environments_share_requests(environment: Service) -> None:
    async def episode(number: int) -> float | None:
        env: SingleTurnEnv[Observation] = SingleTurnEnv(TASKS)
        await env.reset_async(seed=0)
        seen = await env.step_async([{"role": "assistant", "content": rf"\boxed{{{number}/2}}"}])
        return seen.reward

    async def run() -> list[float | None]:
        return await asyncio.gather(*(episode(number) for number in range(32)))

    requests = environment.requests()
    assert asyncio.run(run()) == [float(number == 1) for number in range(32)]
    assert environment.requests() - requests <= 4


def test_without_a_verdict_the_step_raises_and_can_be_repeated() -> None:
    env: SingleTurnEnv[Observation] = SingleTurnEnv(
        [("1 + 1?", "2")], "http://127.0.0.1:9", patience_s=0
    )
    env.reset()
    for _ in range(2):
        with pytest.raises(Unavailable):
            env.step("2")
    assert env.state.step_count == 0


def test_skyrls_environment_gives_a_reward(environment: Service) -> None:
    prompt = [{"role": "user", "content": "Half of one?"}]
    for text, reward in [(r"\boxed{0.5}", 1.0), ("none", 0.0)]:
        env = SkyRLEnv(env_config={}, extras={"reward_spec": {"ground_truth": r"\frac12"}})
        assert env.init(prompt) == (prompt, {})
        output: dict[str, Any] = env.step(text)
        assert (output["observations"], output["reward"], output["done"]) == ([], reward, True)
        assert env.get_metrics() == {}
        env.close()


def test_skyrls_environment_raises_without_verdict_or_ground_truth() -> None:
    config = {"url": "http://127.0.0.1:9", "patience_s": 0}
    env = SkyRLEnv(config, {"reward_spec": {"ground_truth": "2"}})
    env.init([])
    with pytest.raises(Unavailable):
        env.step("2")
    with pytest.raises(GroundTruthError, match="reward_spec"):
        SkyRLEnv(config, {})
