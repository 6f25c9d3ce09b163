"""SkyRL-gym makes the environment, which gives no reward once the service is killed."""

import skyrl_gym
from rapid_verifier import Unavailable
from rapid_verifier.env import SkyRLEnv
from service import Service
from skyrl_gym.envs.base_text_env import BaseTextEnv


class Rapid(SkyRLEnv, BaseTextEnv):
    pass


def step(service: Service, text: str) -> dict[str, object]:
    config = {"url": service.url, "token": service.token, "patience_s": 0.5}
    extras = {"reward_spec": {"ground_truth": "1/2"}}
    env = skyrl_gym.make("rapid", env_config=config, extras=extras)
    env.init([{"role": "user", "content": "Half of one?"}])
    output: dict[str, object] = env.step(text)
    Rapid.aggregate_metrics([env.get_metrics()])
    env.close()
    return output


skyrl_gym.register(id="rapid", entry_point=Rapid)
with Service() as service:
    for text, reward in [(r"\boxed{0.5}", 1.0), (r"\boxed{3}", 0.0)]:
        output = step(service, text)
        assert (output["reward"], output["done"]) == (reward, True), output
    service.kill()
    try:
        raise AssertionError(step(service, r"\boxed{0.5}"))
    except Unavailable as error:
        print(f"no reward: {error}")
