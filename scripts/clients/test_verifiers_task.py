"""A `Task` of verifiers 0.4 scores traces."""

import asyncio

import pytest
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


async def score(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"rewards": {"correct": {"fn": "rapid_verifier.verifiers:task_reward"}}}
    task = Half(HalfData(prompt="Half of one?"), TaskConfig.model_validate(settings))
    for text, reward in [(r"\boxed{0.5}", 1.0), (r"\boxed{3}", 0.0)]:
        trace = Trace(text)
        await task.score(trace)
        assert trace.rewards == {"correct": reward}

    service.kill()
    shared = micro_batch.shared
    monkeypatch.setattr(
        micro_batch, "shared", lambda url, token: shared(url, token, patience_s=0.5)
    )
    trace = Trace(r"\boxed{0.5}")
    with pytest.raises(TaskError):
        await task.score(trace)
    assert trace.rewards == {"correct": None}


def test_a_task_gives_rewards_and_an_error_once_the_service_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Service() as service:
        assert service.token is not None
        monkeypatch.setenv("RAPID_VERIFIER", service.url)
        monkeypatch.setenv("RAPID_VERIFIER_TOKEN", service.token)
        asyncio.run(score(service, monkeypatch))
