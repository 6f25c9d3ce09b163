"""Single judgements become few requests."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rapid_verifier import Item, MicroBatcher, Refused, Unavailable
from service import Service
from stub import Answer, Items, Stub, results


@pytest.fixture
def batcher(service: Service, long_window: None) -> MicroBatcher:
    return MicroBatcher(service.url, service.token, patience_s=60)


def boxed(number: int) -> str:
    return rf"\boxed{{{number}}}"


def test_calls_of_many_threads_are_few_requests(batcher: MicroBatcher, service: Service) -> None:
    requests, judged = service.requests(), service.judged()
    with ThreadPoolExecutor(96) as threads:
        rewards = list(threads.map(lambda n: batcher.score(n % 5, boxed(n)), range(96)))
    assert rewards == [float(n < 5) for n in range(96)]
    assert service.judged() - judged == 96
    assert service.requests() - requests <= 24
    batcher.close()


def test_calls_of_many_coroutines_are_few_requests(batcher: MicroBatcher, service: Service) -> None:
    async def run() -> list[float]:
        return await asyncio.gather(*(batcher.score_async(n % 5, boxed(n)) for n in range(64)))

    requests, judged = service.requests(), service.judged()
    assert asyncio.run(run()) == [float(n < 5) for n in range(64)]
    assert service.judged() - judged == 64
    assert service.requests() - requests <= 8
    # Another loop uses the same connections.
    assert asyncio.run(run()) == [float(n < 5) for n in range(64)]
    batcher.close()


def test_a_call_alone_is_sent_after_the_window(batcher: MicroBatcher) -> None:
    assert batcher.score("2", boxed(2)) == 1.0
    assert batcher.judge(Item("starter-math/train-1", boxed(10))).reward == 1.0
    batcher.close()


def test_a_refused_item_does_not_disturb_the_others_of_its_batch(service: Service) -> None:
    batcher = MicroBatcher(service.url, service.token, window_s=0.2)
    # It asks once which data sets there are, which may take longer than the window.
    batcher.client.task_of("starter-math/train-1")
    requests = service.requests()

    async def run() -> list[float | BaseException]:
        truths = ["2", "starter-math/no-such-task", {"kind": "code", "entry_point": "def"}, "2"]
        calls = (batcher.score_async(truth, boxed(2)) for truth in truths)
        return await asyncio.gather(*calls, return_exceptions=True)

    first, unknown, bad, last = asyncio.run(run())
    assert (first, last) == (1.0, 1.0)
    assert isinstance(unknown, Refused) and "no-such-task" in str(unknown)
    assert isinstance(bad, Refused) and bad.problem.field is not None
    assert service.requests() - requests == 1
    batcher.close()


def test_calls_collect_while_requests_wait() -> None:
    with Stub(lambda _, items: results(items)) as stub:
        batcher = MicroBatcher(stub.url, in_flight=1, batch=8)

        async def run() -> list[float]:
            return await asyncio.gather(*(batcher.score_async("2", "2") for _ in range(40)))

        assert asyncio.run(run()) == [1.0] * 40
        assert [len(items) for items in stub.requests] == [8] * 5
        batcher.close()


def test_a_batch_that_pauses_does_not_keep_others_from_being_sent() -> None:
    later = threading.Event()

    def answer(_: int, items: Items) -> Answer:
        if items[0]["completion"] == "later":
            later.set()
        return results(items) if later.is_set() else (503, {}, b"")

    with Stub(answer) as stub:
        batcher = MicroBatcher(stub.url, in_flight=1, batch=1, patience_s=20)

        async def run() -> list[float]:
            calls = (batcher.score_async("2", text) for text in ("first", "later"))
            return await asyncio.gather(*calls)

        assert asyncio.run(run()) == [1.0, 1.0]
        batcher.close()


def test_a_cancelled_call_ends_without_the_others() -> None:
    with Stub(lambda _, items: results(items)) as stub:
        batcher = MicroBatcher(stub.url, window_s=0.2)

        async def run() -> float:
            cancelled = asyncio.ensure_future(batcher.score_async("2", "a"))
            other = asyncio.ensure_future(batcher.score_async("2", "b"))
            await asyncio.sleep(0.05)
            cancelled.cancel()
            return await other

        assert asyncio.run(run()) == 1.0
        assert [[item["completion"] for item in items] for items in stub.requests] == [["b"]]
        batcher.close()


def test_every_call_of_a_batch_learns_of_an_outage() -> None:
    batcher = MicroBatcher("http://127.0.0.1:9", patience_s=0.2)
    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(batcher.score, "2", boxed(2)) for _ in range(4)]
        for call in calls:
            with pytest.raises(Unavailable):
                call.result()
    batcher.close()


def score_in_a_fork(url: str, token: str, queue: multiprocessing.SimpleQueue[float]) -> None:
    from rapid_verifier import micro_batch

    queue.put(micro_batch.shared(url, token).score("2", boxed(2)))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_a_loop_of_its_own(service: Service) -> None:
    from rapid_verifier import micro_batch

    assert service.token is not None
    assert micro_batch.shared(service.url, service.token).score("2", boxed(2)) == 1.0
    context = multiprocessing.get_context("fork")
    queue: multiprocessing.SimpleQueue[float] = context.SimpleQueue()
    process = context.Process(target=score_in_a_fork, args=(service.url, service.token, queue))
    process.start()
    process.join(30)
    assert process.exitcode == 0 and queue.get() == 1.0
