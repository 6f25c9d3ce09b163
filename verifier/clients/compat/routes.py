"""Requests as the clients of each route send them, for one sample."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import sandbox_fusion
from sandbox_fusion import SubmitRequest, TestConfig

from service import Service


def post(service: Service, path: str, body: object) -> object:
    """The answer, or an error as the clients have it."""
    headers = {"authorization": f"Bearer {service.token}"}
    url = f"{service.url}/compat/{path}"
    answer = httpx.post(url, json=body, headers=headers if service.token else {}, timeout=60)
    answer.raise_for_status()
    return answer.json()


def openrlhf(service: Service, text: str, label: object) -> float:
    body = {"query": [f"p {text}</s>"], "prompts": ["p "], "labels": [label]}
    return post(service, "openrlhf/get_reward", body)["rewards"][0]


def slime(service: Service, text: str, label: object) -> float:
    return post(service, "slime/rm", {"prompt": "p", "response": text, "label": label})


def nemo_gym(service: Service, text: str, label: object) -> float:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    body = {
        "responses_create_params": {"input": "p"},
        "expected_answer": label,
        "response": {"output": [{"type": "message", "role": "assistant", "content": content}]},
    }
    return post(service, "nemo-gym/verify", body)["reward"]


def submit(service: Service, text: str, label: object) -> float:
    """SandboxFusion's own package. Its `config` brings the whole task."""
    task = label if isinstance(label, dict) else {"kind": "math", "answer": label}
    config = TestConfig(provided_data=task, compile_timeout=0, run_timeout=0)
    request = SubmitRequest(dataset="any", id=1, completion=text, config=config)
    endpoint = f"{service.url}/compat/sandbox-fusion"
    return float(sandbox_fusion.submit(request, endpoint=endpoint, max_attempts=1).accepted)


Ask = Callable[[Service, str, object], float]
