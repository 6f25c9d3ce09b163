"""`kill -9` while clients ask: through every route, a reward is the service's, or there is none.

The requests are those of the clients' sources, and SandboxFusion's are its package's. Kimina's route
runs only Lean; `test_kimina.py` kills its service.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from routes import Ask, nemo_gym, openrlhf, slime, submit
from service import Service


def asked(ask: Ask, service: Service, number: int) -> float:
    """The reward of the completion with this number. Every third one is right."""
    return ask(service, rf"\boxed{{{number}}}", str(number - number % 3))


def right(number: int) -> float:
    return float(number % 3 == 0)


@pytest.mark.parametrize("ask", [openrlhf, slime, nemo_gym, submit])
def test_a_killed_service_gives_no_wrong_reward_and_keeps_its_verdicts(ask: Ask) -> None:
    # SandboxFusion's client sends no token.
    token = None if ask is submit else "secret"
    with Service(token=token, disk_cache=True) as service:
        rewards: dict[int, float] = {}
        failures: list[Exception] = []
        numbers = iter(range(100_000))
        lock, stopped = threading.Lock(), threading.Event()

        def keep_asking() -> None:
            while not stopped.is_set():
                with lock:
                    number = next(numbers)
                try:
                    rewards[number] = asked(ask, service, number)
                except Exception as failure:
                    failures.append(failure)
                    time.sleep(0.05)

        threads = [threading.Thread(target=keep_asking) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            time.sleep(0.5)
            service.kill()
            time.sleep(0.2)
            service.start()
        before = len(rewards)
        time.sleep(0.5)
        stopped.set()
        for thread in threads:
            thread.join()
        assert failures, "no request met the outage"
        assert len(rewards) > before > 0
        assert rewards == {number: right(number) for number in rewards}

        # Verdicts are written within this time. Of those just before a `kill -9`, some are not.
        time.sleep(1)
        kept = list(rewards)[before:]
        service.kill()
        service.start()
        with ThreadPoolExecutor(4) as pool:
            again = list(pool.map(lambda number: asked(ask, service, number), kept))
        assert again == [right(number) for number in kept]
        assert service.cached() == service.judged() == len(kept)
