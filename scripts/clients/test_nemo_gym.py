"""NeMo Gym's own simple agent runs rollouts, whose resources server is the service."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
from overload import TASK, completion, load, overloaded, right
from service import Service, free_port

PACKAGE = "nemo-gym"


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
def agent(service: Service) -> Iterator[str]:
    """The address of an agent in a process of its own."""
    model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    port = free_port()
    token = (service.token or "").replace(" ", "%20")
    at = {"host": "127.0.0.1", "entrypoint": "app.py", "num_workers": 1}
    resources = {**at, "host": f"anyone:{token}@127.0.0.1", "port": service.port}
    config = {
        "dry_run": False,
        "head_server": {"host": "127.0.0.1", "port": free_port()},
        "rapid": {"resources_servers": {"rapid": {**resources, "domain": "math"}}},
        "model": {"responses_api_models": {"model": {**at, "port": model.server_address[1]}}},
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
        model.shutdown()
        model.server_close()


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


def test_its_rollouts_wait_for_a_service_that_is_killed_and_restarted() -> None:
    with Service() as service, agent(service) as url:
        assert run(url, r"\boxed{0.5}").json()["reward"] == 1.0
        service.kill()
        answers: list[httpx.Response] = []
        waiting = threading.Thread(target=lambda: answers.append(run(url, r"\boxed{3}")))
        waiting.start()
        time.sleep(2)
        assert answers == []
        service.start()
        waiting.join()
        assert answers[0].json()["reward"] == 0.0


def test_its_rollout_fails_without_a_reward_where_the_service_cannot_judge() -> None:
    """Without a sandbox, no program can be judged."""
    task = {"kind": "code", "entry_point": "f", "tests": [{"args": [1], "expected": 2}]}
    with Service() as service, agent(service) as url:
        body = {**row("def f(n):\n    return 2 * n"), "expected_answer": task}
        answer = httpx.post(f"{url}/run", json=body, timeout=60)
        assert answer.status_code == 500 and "There is no reward now" in answer.text


def test_under_overload_a_rollout_has_the_right_reward_or_fails() -> None:
    with overloaded() as service, agent(service) as url:

        def rollout(number: int) -> httpx.Response:
            body = {**row(completion(number)), "expected_answer": TASK}
            return httpx.post(f"{url}/run", json=body, timeout=60)

        with load(service), ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(rollout, range(12)))
        failed = [answer for answer in answers if answer.status_code != 200]
        assert service.told("withheld") == len(failed) > 0
        for number, answer in enumerate(answers):
            if answer.status_code == 200:
                assert answer.json()["reward"] == right(number), number
            else:
                assert answer.status_code == 500 and "There is no reward now" in answer.text
        for number in range(12):
            assert rollout(number).json()["reward"] == right(number), number
