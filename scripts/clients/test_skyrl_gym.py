"""SkyRL-gym makes the environment."""

import pytest
import skyrl_gym
from overload import TRUTH, completion, load, overloaded, right
from rapid_verifier import Unavailable
from rapid_verifier.env import SkyRLEnv
from service import Service
from skyrl_gym.envs.base_text_env import BaseTextEnv

PACKAGE = "skyrl-gym"


class Rapid(SkyRLEnv, BaseTextEnv):
    pass


def step(service: Service, text: str, truth: str = "1/2") -> dict[str, object]:
    config = {"url": service.url, "token": service.token, "patience_s": 0.5}
    extras = {"reward_spec": {"ground_truth": truth}}
    env = skyrl_gym.make("rapid", env_config=config, extras=extras)
    env.init([{"role": "user", "content": "Half of one?"}])
    output: dict[str, object] = env.step(text)
    Rapid.aggregate_metrics([env.get_metrics()])
    env.close()
    return output


def test_an_environment_gives_rewards_and_raises_once_the_service_is_killed() -> None:
    skyrl_gym.register(id="rapid", entry_point=Rapid)
    with Service() as service:
        for text, reward in [(r"\boxed{0.5}", 1.0), (r"\boxed{3}", 0.0)]:
            output = step(service, text)
            assert (output["reward"], output["done"]) == (reward, True)
        service.kill()
        with pytest.raises(Unavailable, match="no reward"):
            step(service, r"\boxed{0.5}")


def test_under_overload_a_step_has_the_right_reward_or_raises() -> None:
    skyrl_gym.register(id="rapid", entry_point=Rapid)
    with overloaded() as service:
        refused = 0
        with load(service):
            for number in range(12):
                try:
                    reward = step(service, completion(number), TRUTH)["reward"]
                except Unavailable:
                    refused += 1
                    continue
                assert reward == right(number), number
        assert refused > 0, "nothing was refused"
        for number in range(12):
            assert step(service, completion(number), TRUTH)["reward"] == right(number)
