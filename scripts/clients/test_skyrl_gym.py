"""SkyRL-gym makes the environment."""

import pytest
import skyrl_gym
from overload import TRUTH, at_once, completion, overloaded, right_or_missing
from rapid_verifier import Unavailable
from rapid_verifier.env import SkyRLEnv
from service import Service
from skyrl_gym.envs.base_text_env import BaseTextEnv

PACKAGE = "skyrl-gym"


class Rapid(SkyRLEnv, BaseTextEnv):
    pass


@pytest.fixture(autouse=True, scope="module")
def _registered() -> None:
    skyrl_gym.register(id="rapid", entry_point=Rapid)


def step(service: Service, text: str, truth: str = "1/2", patience_s: float = 0.5) -> float:
    """The reward of an episode."""
    config = {"url": service.url, "token": service.token, "patience_s": patience_s}
    extras = {"reward_spec": {"ground_truth": truth}}
    env = skyrl_gym.make("rapid", env_config=config, extras=extras)
    env.init([{"role": "user", "content": "Half of one?"}])
    output = env.step(text)
    Rapid.aggregate_metrics([env.get_metrics()])
    env.close()
    assert output["done"]
    return output["reward"]


def test_an_environment_gives_rewards_and_raises_once_the_service_is_killed() -> None:
    with Service() as service:
        assert [step(service, text) for text in (r"\boxed{0.5}", r"\boxed{3}")] == [1.0, 0.0]
        service.kill()
        with pytest.raises(Unavailable, match="no reward"):
            step(service, r"\boxed{0.5}")


def test_a_service_that_is_killed_and_restarted_meanwhile_gives_the_same_rewards() -> None:
    with Service() as service, service.outage():
        assert [step(service, rf"\boxed{{{n}/4}}", patience_s=60) for n in (1, 2)] == [0.0, 1.0]


def test_under_overload_a_step_has_the_right_reward_or_raises() -> None:
    with overloaded() as service:

        def ask(number: int) -> float | None:
            try:
                return step(service, completion(number), TRUTH)
            except Unavailable:
                return None

        right_or_missing(service, at_once(ask))
