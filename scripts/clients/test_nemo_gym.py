"""NeMo Gym's own simple agent runs rollouts. Its resources server is the service."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
from overload import TASK, at_once, completion, overloaded, right_or_missing
from service import Service, free_port

PACKAGE = "nemo-gym"
GYM = [str(Path(sys.executable).with_name("gym"))]
SERVERS = [
    "resources_servers/rapid",
    "responses_api_agents/simple_agent",
    "responses_api_models/openai_model",
    "environment_servers/legacy_agent",
]
"""What `gym env start` starts here."""


class Model(BaseHTTPRequestHandler):
    """A model that answers what it was asked, in the form of OpenAI's Responses API."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = asked["input"][-1]["content"]
        content = [{"type": "output_text", "text": text, "annotations": []}]
        message = {"id": "m", "type": "message", "role": "assistant", "status": "completed"}
        response = {
            "id": "r",
            "created_at": 1.0,
            "model": "echo",
            "object": "response",
            "output": [{**message, "content": content}],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
        body = json.dumps(response).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def model() -> Iterator[int]:
    """The port of the model."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def agent(service: Service) -> Iterator[str]:
    """The address of an agent in a process of its own."""
    with model() as model_port, agent_process(service, model_port) as url:
        yield url


def resources_server(service: Service) -> dict[str, object]:
    """The service, as NeMo Gym's settings name it, with the token in the host."""
    token = (service.token or "").replace(" ", "%20")
    server = {"host": f"anyone:{token}@127.0.0.1", "port": service.port, "entrypoint": "app.py"}
    return {"resources_servers": {"rapid": {**server, "domain": "math"}}}


@contextmanager
def agent_process(service: Service, model_port: int) -> Iterator[str]:
    port = free_port()
    at = {"host": "127.0.0.1", "entrypoint": "app.py", "num_workers": 1}
    config = {
        "dry_run": False,
        "head_server": {"host": "127.0.0.1", "port": free_port()},
        "rapid": resources_server(service),
        "model": {"responses_api_models": {"model": {**at, "port": model_port}}},
        "agent": {
            "responses_api_agents": {
                "simple_agent": {
                    **at,
                    "port": port,
                    "resources_server": {"type": "resources_servers", "name": "rapid"},
                    "model_server": {"type": "responses_api_models", "name": "model"},
                }
            }
        },
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "responses_api_agents.simple_agent.app"],
        env={
            **os.environ,
            "NEMO_GYM_CONFIG_DICT": json.dumps(config),
            "NEMO_GYM_CONFIG_PATH": "agent",
        },
    )
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            assert process.poll() is None, "the agent ended"
            try:
                httpx.get(url)
                break
            except httpx.TransportError:
                time.sleep(0.2)
        yield url
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@contextmanager
def started(service: Service, folder: Path) -> Iterator[list[str]]:
    """`gym env start` in a user's folder, with the service as a resources server.

    The environments of the servers are this one, which needs no installation. Returns the
    settings of the servers, for other commands.
    """
    server = folder / "resources_servers" / "rapid"
    server.mkdir(parents=True)
    (server / "app.py").write_text("import signal\n\nsignal.pause()\n")
    (server / "requirements.txt").write_text("# none\n")
    for name in SERVERS:
        (folder / "venvs" / name).mkdir(parents=True)
        (folder / "venvs" / name / ".venv").symlink_to(sys.prefix)
    agent = {
        "entrypoint": "app.py",
        "resources_server": {"type": "resources_servers", "name": "rapid"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    config = {
        "head_server": {"host": "127.0.0.1", "port": free_port()},
        "uv_venv_dir": str(folder / "venvs"),
        "skip_venv_if_present": True,
        "rapid": resources_server(service),
        "agent": {"responses_api_agents": {"simple_agent": agent}},
    }
    (folder / "rapid.yaml").write_text(json.dumps(config))
    with model() as port, open(folder / "log", "w") as log:
        settings = ["--config", "rapid.yaml", "--model-type", "openai_model", "--model", "echo"]
        settings += ["--model-url", f"http://127.0.0.1:{port}", "--model-api-key", "none"]
        # Programs that a shell starts in the background ignore the signal that ends the shell.
        command = ["env", "--default-signal=INT", *GYM, "env", "start", *settings]
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            while "servers ready! Polling" not in (folder / "log").read_text():
                assert process.poll() is None, (folder / "log").read_text()
                time.sleep(0.5)
            yield settings
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def row(completion: str) -> dict[str, object]:
    asked = [{"role": "user", "content": completion}]
    return {
        "responses_create_params": {"input": asked},
        "question": "Half of one?",
        "expected_answer": "1/2",
    }


def run(url: str, completion: str) -> httpx.Response:
    return httpx.post(f"{url}/run", json=row(completion), timeout=60)


def test_its_agent_gets_rewards_at_the_services_host_and_port() -> None:
    with Service() as service, agent(service) as url:
        rewarded = []
        for completion, reward in [(r"\boxed{0.5}", 1.0), (r"\boxed{3}", 0.0)]:
            answer = run(url, completion)
            assert answer.status_code == 200, answer.text
            assert (answer.json()["reward"], answer.json()["expected_answer"]) == (reward, "1/2")
            rewarded.append({**answer.json(), "_ng_task_index": 0, "agent_ref": {"name": "agent"}})
        metrics = httpx.post(f"{url}/aggregate_metrics", json={"verify_responses": rewarded})
        assert metrics.status_code == 200, metrics.text
        assert metrics.json()["agent_metrics"]["mean/reward"] == 0.5


def test_its_start_command_starts_an_agent_that_gets_rewards(tmp_path: Path) -> None:
    texts = [rf"\boxed{{{number}/4}}" for number in range(4)]
    with Service() as service, started(service, tmp_path) as settings:
        (tmp_path / "tasks.jsonl").write_text(
            "".join(json.dumps(row(text)) + "\n" for text in texts)
        )
        files = ["--input", "tasks.jsonl", "--output", "rollouts.jsonl"]
        command = [*GYM, "eval", "run", "--no-serve", *settings, "--agent", "agent", *files]
        subprocess.run(command, cwd=tmp_path, check=True)
        rollouts = map(json.loads, (tmp_path / "rollouts.jsonl").read_text().splitlines())
        rewards = {
            rollout["responses_create_params"]["input"][0]["content"]: rollout["reward"]
            for rollout in rollouts
        }
        assert rewards == {text: float(number == 2) for number, text in enumerate(texts)}
        assert service.told("correct") + service.told("incorrect") == len(texts)


def test_its_rollouts_wait_for_a_service_that_is_killed_and_restarted() -> None:
    with Service() as service, agent(service) as url:
        assert run(url, r"\boxed{0.5}").json()["reward"] == 1.0
        with service.outage():
            assert run(url, r"\boxed{3}").json()["reward"] == 0.0


def test_its_rollout_fails_without_a_reward_where_the_service_cannot_judge() -> None:
    """Without a sandbox, no program can be judged."""
    task = {"kind": "code", "entry_point": "f", "tests": [{"args": [1], "expected": 2}]}
    with Service() as service, agent(service) as url:
        body = {**row("def f(n):\n    return 2 * n"), "expected_answer": task}
        answer = httpx.post(f"{url}/run", json=body, timeout=60)
        assert answer.status_code == 500 and "There is no reward now" in answer.text


def test_under_overload_a_rollout_has_the_right_reward_or_fails() -> None:
    with overloaded() as service, agent(service) as url:

        def ask(number: int) -> float | None:
            body = {**row(completion(number)), "expected_answer": TASK}
            answer = httpx.post(f"{url}/run", json=body, timeout=60)
            if answer.status_code == 200:
                return answer.json()["reward"]
            assert answer.status_code == 500 and "There is no reward now" in answer.text
            return None

        failed = right_or_missing(service, at_once(ask))
        assert service.told("withheld") == failed
