"""While the queue is full, each route gives a reward that is right, or refuses and counts it.

Kimina's route is not tried: it runs only Lean. `test_sandbox_fusion.py` tries `run_code`.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from overload import TASK, completion, load, overloaded, right
from routes import Ask, nemo_gym, openrlhf, slime, submit
from service import Service

SAMPLES = range(24)


def ask_all(ask: Ask, service: Service) -> dict[int, float | None]:
    """The reward of each sample, all at once. None where the client has an error."""

    def asked(number: int) -> float | None:
        try:
            return ask(service, completion(number), TASK)
        except Exception as error:
            assert re.search("50[34]", str(error)), error
            return None

    with ThreadPoolExecutor(len(SAMPLES)) as pool:
        return dict(zip(SAMPLES, pool.map(asked, SAMPLES), strict=True))


@pytest.mark.parametrize("ask", [openrlhf, slime, nemo_gym, submit])
def test_under_overload_a_reward_is_right_or_counted_as_withheld(ask: Ask) -> None:
    # SandboxFusion's client sends no token.
    with overloaded(None if ask is submit else "secret") as service:
        with load(service):
            rewards = ask_all(ask, service)
        refused = [number for number, reward in rewards.items() if reward is None]
        assert refused, "nothing was refused"
        given = {number: reward for number, reward in rewards.items() if reward is not None}
        assert given == {number: right(number) for number in given}
        assert service.told("withheld") == len(refused)
        assert service.told("correct") + service.told("incorrect") == len(given)

        calm = {number: ask(service, completion(number), TASK) for number in SAMPLES}
        assert calm == {number: right(number) for number in SAMPLES}
