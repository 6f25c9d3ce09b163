"""A `Task` of verifiers 0.4 scores traces."""

import asyncio
from collections.abc import Callable

import pytest
from overload import TRUTH, at_once, completion, overloaded, right_or_missing
from rapid_verifier import micro_batch
from service import Service
from verifiers.v1.configs.task import TaskConfig
from verifiers.v1.errors import TaskError
from verifiers.v1.state import State
from verifiers.v1.task import Task, TaskData

PACKAGE = "verifiers"


class HalfData(TaskData):
    answer: str = "1/2"


class Half(Task[HalfData, State, TaskConfig]):
    pass


class Trace:
    """The parts of a trace that scoring uses."""

    def __init__(self, last_reply: str) -> None:
        self.last_reply = last_reply
        self.metrics: dict[str, float | None] = {}
        self.rewards: dict[str, float | None] = {}

    def record_reward(self, name: str, value: float, weight: float = 1.0) -> None:
        self.rewards[name] = value * weight


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[Service, float], None]:
    """Sets the service's address and token, and the patience, which a task cannot set."""
    shared = micro_batch.shared

    def set_all(service: Service, patience_s: float) -> None:
        assert service.token is not None
        monkeypatch.setenv("RAPID_VERIFIER", service.url)
        monkeypatch.setenv("RAPID_VERIFIER_TOKEN", service.token)
        monkeypatch.setattr(
            micro_batch, "shared", lambda url, token: shared(url, token, patience_s=patience_s)
        )

    return set_all


def score(text: str, answer: str = "1/2") -> float | None:
    """The reward of a trace, and `None` if the task has an error."""
    settings = {"rewards": {"correct": {"fn": "rapid_verifier.verifiers:task_reward"}}}
    data = HalfData(prompt="Half of one?", answer=answer)
    task = Half(data, TaskConfig.model_validate(settings))
    trace = Trace(text)
    try:
        asyncio.run(task.score(trace))
    except TaskError:
        assert trace.rewards == {"correct": None}
    return trace.rewards["correct"]


def test_a_task_gives_rewards_and_an_error_once_the_service_is_killed(at) -> None:
    with Service() as service:
        at(service, 0.5)
        assert [score(text) for text in (r"\boxed{0.5}", r"\boxed{3}")] == [1.0, 0.0]
        service.kill()
        assert score(r"\boxed{0.5}") is None


def test_a_service_that_is_killed_and_restarted_meanwhile_gives_the_same_rewards(at) -> None:
    with Service() as service, service.outage():
        at(service, 60)
        assert [score(rf"\boxed{{{number}/4}}") for number in (1, 2)] == [0.0, 1.0]


def test_under_overload_a_task_gives_the_right_reward_or_an_error(at) -> None:
    with overloaded() as service:
        at(service, 0.5)
        right_or_missing(service, at_once(lambda number: score(completion(number), TRUTH)))
