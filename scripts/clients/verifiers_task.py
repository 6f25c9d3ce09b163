"""A `Task` of verifiers 0.4 scores traces, and records an error once the service is killed."""

import asyncio
import os

from rapid_verifier import micro_batch
from service import Service
from verifiers.v1.configs.task import TaskConfig
from verifiers.v1.errors import TaskError
from verifiers.v1.state import State
from verifiers.v1.task import Task, TaskData


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


async def main() -> None:
    settings = {"rewards": {"correct": {"fn": "rapid_verifier.verifiers:task_reward"}}}
    task = Half(HalfData(prompt="Half of one?"), TaskConfig.model_validate(settings))
    with Service() as service:
        assert service.token is not None
        os.environ["RAPID_VERIFIER"], os.environ["RAPID_VERIFIER_TOKEN"] = (
            service.url,
            service.token,
        )
        for text, reward in [(r"\boxed{0.5}", 1.0), (r"\boxed{3}", 0.0)]:
            trace = Trace(text)
            await task.score(trace)
            assert trace.rewards == {"correct": reward}, trace.rewards

        service.kill()
        shared = micro_batch.shared
        micro_batch.shared = lambda url, token: shared(url, token, patience_s=0.5)
        trace = Trace(r"\boxed{0.5}")
        try:
            await task.score(trace)
        except TaskError as error:
            print(f"no reward: {error}")
        assert trace.rewards == {"correct": None}, trace.rewards


asyncio.run(main())
