"""A service whose queue stays full, and completions of which it is known whether they are right."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from service import TOKEN, Service

TASK = {"kind": "code", "entry_point": "f", "tests": [{"args": [1], "expected": 2}]}
TRUTH = json.dumps(TASK)
ROOM = 4
"""How many items may wait, and the most that a request holds."""


def completion(number: int) -> str:
    """The completion with this number, unlike all others. Every third one is right."""
    factor = 3 if number % 3 else 2
    return f"def f(n):\n    return {factor} * n + 0 * {number}"


def right(number: int) -> float:
    return float(number % 3 == 0)


@contextmanager
def overloaded(token: str | None = TOKEN) -> Iterator[Service]:
    """A service with one worker and a short queue. A client's request is held for a second."""
    settings = ["workers=1", f"limits.items={ROOM}", f"limits.queue={ROOM}"]
    settings += ["compat.hold_seconds=1"]
    arguments = [part for setting in settings for part in ("--set", setting)]
    with Service(*arguments, code=True, token=token) as service:
        yield service


@contextmanager
def load(service: Service) -> Iterator[None]:
    """Fills the queue with slow programs, and fills it again as soon as it has room."""
    stopped = threading.Event()
    numbers = itertools.count()
    headers = {"authorization": f"Bearer {service.token}"} if service.token else {}

    def keep_asking() -> None:
        with httpx.Client(headers=headers, timeout=60) as client:
            while not stopped.is_set():
                text = f"def f(n):\n    for _ in range(10**6): pass\n    return {next(numbers)}"
                item = {"id": "1", "task": TASK, "completion": text}
                client.post(f"{service.url}/v1/verify", json={"items": [item]})
                stopped.wait(0.01)

    threads = [threading.Thread(target=keep_asking) for _ in range(4 * ROOM)]
    for thread in threads:
        thread.start()
    try:
        while service.requests(429) == 0:
            stopped.wait(0.05)
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
