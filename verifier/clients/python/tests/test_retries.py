"""What happens when the service is full, killed, restarted or wrong."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rapid_verifier import (
    Client,
    CodeTask,
    ConnectionFailed,
    GroundTruthError,
    InvalidAnswer,
    Item,
    Judgement,
    MicroBatcher,
    Problem,
    Refused,
    RequestTimedOut,
    TokenRefused,
    Unavailable,
    VerifierError,
)
from rapid_verifier.patience import LONGEST_PAUSE_S, Trouble
from service import Service
from stub import Answer, Items, Stub, judgement, results

TWO = {"kind": "math", "answer": 2}
RIGHT = [r"\boxed{2}"]


def slow(number: int) -> Item:
    """A program that takes about half a second, and differs from the others."""
    task: CodeTask = {
        "kind": "code",
        "entry_point": "f",
        "tests": [{"args": [], "expected": number}],
    }
    loop = f"def f():\n    for _ in range(10_000_000):\n        pass\n    return {number}\n"
    return Item(task, loop)


def test_a_service_that_is_killed_and_restarted_between_requests_answers_again() -> None:
    with Service() as service, Client(service.url, service.token) as client:
        assert client.verify(TWO, RIGHT)[0].reward == 1.0
        service.kill()
        service.start()
        assert client.verify(TWO, RIGHT)[0].reward == 1.0


def test_a_request_waits_for_a_service_that_comes_back() -> None:
    with Service() as service, Client(service.url, service.token, patience_s=60) as client:
        service.kill()
        timer = threading.Timer(1.0, service.start)
        timer.start()
        assert client.verify(TWO, RIGHT)[0].reward == 1.0
        timer.join()


def test_a_service_that_is_killed_while_it_judges_gives_no_reward() -> None:
    with Service("--workers", "1", code=True) as service:
        items = [slow(number) for number in range(8)]
        with Client(service.url, service.token, patience_s=1) as client:
            timer = threading.Timer(0.5, service.kill)
            timer.start()
            judged = client.judge(items)
            timer.join()
            assert [found.verdict for found in judged] == ["unavailable"] * 8
            assert [found.reward for found in judged] == [None] * 8
            assert service.url in judged[0].reason
            with pytest.raises(Unavailable, match="no answer from the verifier") as error:
                client.verify(items[0].task, [items[0].completion])
            assert error.value.retryable


def test_a_request_that_is_cut_off_is_sent_again_to_the_restarted_service() -> None:
    with Service("--workers", "1", code=True) as service:
        with Client(service.url, service.token, patience_s=120) as client:

            def restart() -> None:
                service.kill()
                service.start()

            timer = threading.Timer(0.5, restart)
            timer.start()
            assert [found.reward for found in client.judge(map(slow, range(4)))] == [1.0] * 4
            timer.join()


def test_overload_delays_rewards_and_never_makes_them_0() -> None:
    full = ("--workers", "1", "--set", "limits.items=2", "--set", "limits.queue=2")
    with Service(*full, code=True) as service:
        with Client(service.url, service.token, batch=1, in_flight=8, patience_s=0) as client:
            judged = client.judge(map(slow, range(12)))
        assert service.requests(429) > 0
        rewards = [found.reward for found in judged]
        assert None in rewards and 0.0 not in rewards and 1.0 in rewards
        assert "the queue is full" in judged[rewards.index(None)].reason
        with Client(service.url, service.token, batch=1, in_flight=8, patience_s=120) as client:
            assert [found.reward for found in client.judge(map(slow, range(12)))] == [1.0] * 12


def test_the_pause_is_at_least_retry_after() -> None:
    def answer(number: int, items: Items) -> Answer:
        return (429, {"retry-after": "1"}, b"") if number == 0 else results(items)

    with Stub(answer) as stub, Client(stub.url) as client:
        assert client.verify(TWO, RIGHT)[0].reward == 1.0
        assert stub.times[1] - stub.times[0] >= 1.0


def test_the_wait_for_other_requests_does_not_use_up_the_patience() -> None:
    refusals = iter([True, True])

    def answer(number: int, items: Items) -> Answer:
        if items[0]["completion"] == "long":
            time.sleep(1.5)
        elif next(refusals, False):
            return 429, {"retry-after": "0"}, b""
        return results(items)

    with Stub(answer) as stub:
        with Client(stub.url, batch=1, in_flight=1, patience_s=1.0) as client:
            judged = client.judge([Item(TWO, "refused"), Item(TWO, "long")])
    assert [found.reward for found in judged] == [1.0, 1.0]
    assert len(stub.requests) == 4


def test_a_full_queue_a_server_error_and_a_broken_connection_cost_no_reward() -> None:
    answers: list[Answer] = [(429, {"retry-after": "0"}, b""), (503, {}, b"<html>"), None]

    def answer(number: int, items: Items) -> Answer:
        return answers[number] if number < len(answers) else results(items)

    with Stub(answer) as stub, Client(stub.url, patience_s=30) as client:
        assert client.verify(TWO, RIGHT)[0].reward == 1.0
        assert len(stub.requests) == 4


def test_only_unavailable_items_are_sent_again_if_that_may_help() -> None:
    def answer(number: int, items: Items) -> Answer:
        states = {"b": number == 0, "c": False}
        found = [
            judgement(item, reward=None, verdict="unavailable", retryable=states[name])
            if (name := item["completion"]) == "c" or (name == "b" and number == 0)
            else judgement(item)
            for item in items
        ]
        return 200, {}, json.dumps({"results": found}).encode()

    with Stub(answer) as stub, Client(stub.url, patience_s=30) as client:
        judged = client.judge(Item(TWO, completion) for completion in "abc")
        assert [found.reward for found in judged] == [1.0, 1.0, None]
        assert [[item["completion"] for item in sent] for sent in stub.requests] == [
            ["a", "b", "c"],
            ["b"],
        ]


def test_an_older_service_refuses_a_request_for_one_item_and_judges_the_others() -> None:
    """It does not know `errors=item`."""

    def answer(_: int, items: Items) -> Answer:
        bad = [place for place, item in enumerate(items) if item["completion"] == "b"]
        if not bad:
            return results(items)
        problem = {"status": 422, "detail": "it is bad", "item": bad[0], "field": "completion"}
        return 422, {}, json.dumps(problem).encode()

    with Stub(answer) as stub:
        batcher = MicroBatcher(stub.url, window_s=0.2)

        async def run() -> list[Judgement | BaseException]:
            calls = (batcher.judge_async(Item(TWO, completion)) for completion in "abc")
            return await asyncio.gather(*calls, return_exceptions=True)

        first, refused, last = asyncio.run(run())
        batcher.close()
    assert isinstance(first, Judgement) and first.reward == 1.0
    assert isinstance(last, Judgement) and last.reward == 1.0
    assert isinstance(refused, Refused) and refused.problem.field == "completion"


@pytest.mark.parametrize(
    ("status", "retryable"), [(400, False), (408, True), (413, False), (500, True)]
)
def test_only_statuses_that_may_pass_are_retried(status: int, retryable: bool) -> None:
    with Stub(lambda _, __: (status, {}, b"")) as stub, Client(stub.url, patience_s=0.3) as client:
        if retryable:
            assert client.judge([Item(TWO, "2")])[0].reward is None
            assert len(stub.requests) > 1
        else:
            with pytest.raises(Refused, match=str(status)):
                client.judge([Item(TWO, "2")])
            assert len(stub.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"not JSON",
        b'{"results": []}',
        b'{"results": [{"id": "1", "reward": 1.0, "verdict": "correct"}]}',
        b'{"results": [{"id": "0", "verdict": "correct"}]}',
        b'{"results": [{"id": "0", "reward": NaN, "verdict": "correct"}]}',
        b'{"results": [{"id": "0", "reward": true, "verdict": "correct"}]}',
        b'{"results": [{"id": "0", "reward": "1", "verdict": "correct"}]}',
        b'{"results": [{"id": "0", "reward": 1.0, "verdict": "splendid"}]}',
    ],
)
def test_an_answer_that_is_no_verifiers_is_an_error(body: bytes) -> None:
    with Stub(lambda _, __: (200, {}, body)) as stub, Client(stub.url) as client:
        with pytest.raises(InvalidAnswer, match="not as a verifier does"):
            client.judge([Item(TWO, "2")])


def test_a_verdict_without_a_reward_is_none() -> None:
    with Stub(lambda _, items: results(items, verdict="incorrect", reward=None)) as stub:
        with Client(stub.url) as client:
            assert client.judge([Item(TWO, "2")])[0].verdict == "unavailable"


def test_pauses_grow_to_a_limit_and_end_with_the_patience() -> None:
    trouble = Trouble(1e9)
    pauses = [trouble.pause() for _ in range(12)]
    for number, pause in enumerate(pauses):
        whole = min(0.25 * 2**number, LONGEST_PAUSE_S)
        assert pause is not None and whole / 2 <= pause <= whole
    assert trouble.pause(100.0) == 100.0
    short = Trouble(0.05)
    assert short.pause(100.0) == pytest.approx(0.05, abs=0.01)
    time.sleep(0.06)
    assert short.pause() is None


ERRORS: list[VerifierError] = [
    Unavailable("http://host/", "no Lean", False),
    ConnectionFailed("http://host/", "refused"),
    RequestTimedOut("http://host/", 3600.0),
    InvalidAnswer("http://host/", "no JSON"),
    Refused("http://host/", Problem(429, detail="full"), 2.0),
    TokenRefused("http://host/", Problem(401), None, True),
    GroundTruthError("empty"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_cross_processes_and_are_none_that_trainers_score_0(error: VerifierError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.retryable) == (type(error), str(error), error.retryable)
    assert copy.retry_after == error.retry_after
    assert not isinstance(error, (TimeoutError, OSError))


def test_interrupted_threads_do_not_disturb_others() -> None:
    with Stub(lambda _, items: results(items)) as stub, Client(stub.url, in_flight=1) as client:
        with ThreadPoolExecutor(4) as threads:
            calls = [threads.submit(client.verify, TWO, RIGHT) for _ in range(8)]
            assert all(call.result()[0].reward == 1.0 for call in calls)
