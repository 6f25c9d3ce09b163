"""A service with a queue that stays full, and completions that are known to be right or wrong."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import httpx

from service import TOKEN, Service

TASK = {"kind": "code", "entry_point": "f", "tests": [{"args": [1], "expected": 2}]}
TRUTH = json.dumps(TASK)
ROOM = 4
"""How many items may wait."""
SAMPLES = 12
"""How many completions are sent at once."""
MAX_ROUNDS = 20
SLOW_PROGRAMS = itertools.count()
"""Numbers of slow programs. None is in a service's cache."""


def completion(number: int) -> str:
    """The completion with this number, unlike all others. Every third one is right."""
    factor = 3 if number % 3 else 2
    return f"def f(n):\n    return {factor} * n + 0 * {number}"


def right(number: int) -> float:
    return float(number % 3 == 0)


@contextmanager
def overloaded(*arguments: str, token: str | None = TOKEN) -> Iterator[Service]:
    """A service with one worker and a short queue. A client's request is held for a second.

    A request has one item, so that some of the items that a client sends together are refused.
    """
    settings = ["workers=1", "limits.items=1", f"limits.queue={ROOM}"]
    settings += ["compat.hold_seconds=1"]
    few = [part for setting in settings for part in ("--set", setting)]
    with Service(*few, *arguments, code=True, token=token) as service:
        yield service


@contextmanager
def load(service: Service) -> Iterator[None]:
    """Fills the queue with slow programs, and fills it again as soon as it has room."""
    stopped = threading.Event()
    headers = {"authorization": f"Bearer {service.token}"} if service.token else {}

    def keep_asking() -> None:
        with httpx.Client(headers=headers, timeout=60) as client:
            while not stopped.is_set():
                text = (
                    f"def f(n):\n    for _ in range(10**6): pass\n    return {next(SLOW_PROGRAMS)}"
                )
                item = {"id": "1", "task": TASK, "completion": text}
                # Behind a proof, a program may wait for minutes.
                with suppress(httpx.TimeoutException):
                    client.post(f"{service.url}/v1/verify", json={"items": [item]})
                # Others get every third place or so.
                stopped.wait(0.2)

    refused = service.requests(429)
    threads = [threading.Thread(target=keep_asking) for _ in range(4 * ROOM)]
    for thread in threads:
        thread.start()
    try:
        while service.requests(429) == refused:
            stopped.wait(0.05)
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


AskAll = Callable[[Sequence[int]], Sequence[float | None]]


def at_once(ask: Callable[[int], float | None]) -> AskAll:
    """Asks for the reward of each sample on a thread of its own."""

    def ask_all(samples: Sequence[int]) -> list[float | None]:
        with ThreadPoolExecutor(len(samples)) as pool:
            return list(pool.map(ask, samples))

    return ask_all


def right_or_missing(service: Service, ask_all: AskAll) -> int:
    """Asks for the rewards of samples while the queue is full, and again when it is not.

    Under load each reward is right or missing (`None`), and there are some of either; afterwards,
    one by one, all are right. Returns how many were missing.
    """
    rewards: dict[int, float | None] = {}
    given: dict[int, float] = {}
    with load(service):
        while not 0 < len(given) < len(rewards) and len(rewards) < MAX_ROUNDS * SAMPLES:
            samples = range(len(rewards), len(rewards) + SAMPLES)
            rewards |= zip(samples, ask_all(samples), strict=True)
            given = {number: reward for number, reward in rewards.items() if reward is not None}
    assert given == {number: right(number) for number in given}
    assert 0 < len(given) < len(rewards), f"{len(given)} of {len(rewards)} rewards were given"
    calm = {number: ask_all([number]) for number in rewards}
    assert calm == {number: [right(number)] for number in rewards}
    return len(rewards) - len(given)
