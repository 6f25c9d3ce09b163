"""OpenEnv's own server serves the environment."""

from typing import Any

from fastapi.testclient import TestClient
from openenv.core.env_server import Action, Environment, Observation, create_app
from rapid_verifier.env import SingleTurnEnv
from service import Service

PACKAGE = "openenv"


class Completion(Action):
    completion: str


class Seen(Observation):
    prompt: str = ""


def test_its_server_gives_rewards_and_an_error_once_the_service_is_killed() -> None:
    with Service() as service:

        class Rapid(SingleTurnEnv[Seen], Environment[Completion, Seen, Any]):
            def __init__(self) -> None:
                super().__init__(
                    [("Half of one?", "1/2")],
                    service.url,
                    service.token,
                    observation=Seen,
                    patience_s=0.5,
                )

        client = TestClient(create_app(Rapid, Completion, Seen, env_name="rapid"))
        with client.websocket_connect("/ws") as socket:

            def ask(kind: str, **data: str) -> dict[str, Any]:
                socket.send_json({"type": kind, "data": data})
                answer: dict[str, Any] = socket.receive_json()
                return answer

            for text, reward in [(r"\boxed{0.5}", 1.0), (r"\boxed{3}", 0.0)]:
                assert ask("reset")["data"]["observation"]["prompt"] == "Half of one?"
                answer = ask("step", completion=text)
                assert (answer["data"]["reward"], answer["data"]["done"]) == (reward, True)
                socket.send_json({"type": "state"})
                assert socket.receive_json()["data"]["step_count"] == 1
            ask("reset")
            service.kill()
            answer = ask("step", completion=r"\boxed{0.5}")
            assert answer["type"] == "error" and "no reward" in answer["data"]["message"]
