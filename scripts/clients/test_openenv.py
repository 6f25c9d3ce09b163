"""OpenEnv's own server serves the environment."""

from typing import Any

from fastapi.testclient import TestClient
from openenv.core.env_server import Action, Environment, Observation, create_app
from overload import SAMPLES, TRUTH, at_once, completion, overloaded, right_or_missing
from rapid_verifier.env import SingleTurnEnv
from service import Service
from starlette.testclient import WebSocketTestSession

PACKAGE = "openenv"


class Completion(Action):
    completion: str


class Seen(Observation):
    prompt: str = ""


def opened(service: Service, truth: str = "1/2", patience_s: float = 0.5) -> TestClient:
    """A client of OpenEnv's server. Its environment has one task."""

    class Rapid(SingleTurnEnv[Seen], Environment[Completion, Seen, Any]):
        def __init__(self) -> None:
            super().__init__(
                [("Half of one?", truth)],
                service.url,
                service.token,
                observation=Seen,
                patience_s=patience_s,
            )

    # A session ends a little later than its connection.
    sessions = 2 * SAMPLES
    return TestClient(
        create_app(Rapid, Completion, Seen, env_name="rapid", max_concurrent_envs=sessions)
    )


def ask(socket: WebSocketTestSession, kind: str, **data: str) -> dict[str, Any]:
    socket.send_json({"type": kind, "data": data} if kind != "state" else {"type": kind})
    answer: dict[str, Any] = socket.receive_json()
    return answer


def reward(client: TestClient, text: str) -> float | None:
    """The reward of an episode in a session of its own, and `None` if its step is an error."""
    with client.websocket_connect("/ws") as socket:
        answer = ask(socket, "reset")
        assert answer["data"].get("observation", {}).get("prompt") == "Half of one?", answer
        answer = ask(socket, "step", completion=text)
        if answer["type"] == "error":
            assert "no reward" in answer["data"]["message"]
            return None
        assert answer["data"]["done"]
        assert ask(socket, "state")["data"]["step_count"] == 1
        return answer["data"]["reward"]


def test_its_server_gives_rewards_and_an_error_once_the_service_is_killed() -> None:
    with Service() as service:
        client = opened(service)
        assert [reward(client, text) for text in (r"\boxed{0.5}", r"\boxed{3}")] == [1.0, 0.0]
        service.kill()
        assert reward(client, r"\boxed{0.5}") is None


def test_a_service_that_is_killed_and_restarted_meanwhile_gives_the_same_rewards() -> None:
    with Service() as service, service.outage():
        client = opened(service, patience_s=60)
        assert [reward(client, rf"\boxed{{{number}/4}}") for number in (1, 2)] == [0.0, 1.0]


def test_under_overload_a_step_has_the_right_reward_or_is_an_error() -> None:
    with overloaded() as service:
        client = opened(service, TRUTH)
        right_or_missing(service, at_once(lambda number: reward(client, completion(number))))
