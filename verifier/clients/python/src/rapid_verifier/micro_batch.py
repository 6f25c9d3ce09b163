"""Single judgements, sent together: calls within a few milliseconds become one request.

Trainers call a reward function once for each completion, from many threads or coroutines.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

from rapid_verifier import background, wire
from rapid_verifier.client import Client
from rapid_verifier.errors import VerifierError
from rapid_verifier.ground_truth import GroundTruthIs
from rapid_verifier.patience import Outcome
from rapid_verifier.wire import Item, Judgement

WINDOW_S = 0.005
"""Seconds for which the first completion of a batch waits for others."""


class MicroBatcher:
    """Collects the calls of all threads and event loops of a process, and sends them together.

    A batch is sent when it is full or its first call has waited for `window_s`. While `in_flight`
    requests wait for an answer, further calls collect; a batch that pauses before it is sent again
    is none of them. The other parameters are those of `Client`.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        window_s: float = WINDOW_S,
        batch: int = 32,
        in_flight: int = 4,
        patience_s: float = 600.0,
    ) -> None:
        self._client = Client(url, token, batch=batch, in_flight=in_flight, patience_s=patience_s)
        self._window_s, self._batch, self._in_flight = window_s, batch, in_flight
        # The rest belongs to the background loop, and is used on it alone.
        self._waiting: list[tuple[Item, asyncio.Future[Judgement]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._requests: set[asyncio.Task[None]] = set()
        # How many of them do not pause.
        self._asking = 0

    @property
    def client(self) -> Client:
        """The client that sends the batches."""
        return self._client

    def score(
        self,
        truth: object,
        completion: str,
        prompt: str = "",
        ground_truth_is: GroundTruthIs = "auto",
    ) -> float:
        """The reward of a completion. Blocks.

        Raises `Unavailable` without a verdict, `GroundTruthError`, and other `VerifierError`s.
        """
        return background.run(self._score(truth, completion, prompt, ground_truth_is)).required()

    async def score_async(
        self,
        truth: object,
        completion: str,
        prompt: str = "",
        ground_truth_is: GroundTruthIs = "auto",
    ) -> float:
        """As `score`, from any event loop."""
        scored = self._score(truth, completion, prompt, ground_truth_is)
        return (await asyncio.wrap_future(background.submit(scored))).required()

    def judge_truth(
        self, truth: object, completion: str, prompt: str, ground_truth_is: GroundTruthIs
    ) -> Judgement:
        """As `score`, but returns the judgement, which may have no reward."""
        return background.run(self._score(truth, completion, prompt, ground_truth_is))

    async def judge_truth_async(
        self, truth: object, completion: str, prompt: str, ground_truth_is: GroundTruthIs
    ) -> Judgement:
        """As `judge_truth`, from any event loop."""
        scored = self._score(truth, completion, prompt, ground_truth_is)
        return await asyncio.wrap_future(background.submit(scored))

    def judge(self, item: Item) -> Judgement:
        """Judges one item. Blocks. Without a verdict, the judgement has no reward."""
        return background.run(self._judge(item))

    async def judge_async(self, item: Item) -> Judgement:
        """As `judge`, from any event loop."""
        return await asyncio.wrap_future(background.submit(self._judge(item)))

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    async def _score(
        self, truth: object, completion: str, prompt: str, ground_truth_is: GroundTruthIs
    ) -> Judgement:
        client = await self._client.on_background()
        task = await client.task_of(truth, ground_truth_is=ground_truth_is)
        return await self._judge(Item(task, completion, prompt))

    async def _judge(self, item: Item) -> Judgement:
        wire.body([item])  # A value that JSON lacks is this call's error, and not the batch's.
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Judgement] = loop.create_future()
        self._waiting.append((item, future))
        if len(self._waiting) >= self._batch:
            self._send()
        elif self._timer is None:
            self._timer = loop.call_later(self._window_s, self._send)
        return await future

    def _send(self) -> None:
        """Sends what waits, as far as requests are free."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Nobody wants the verdicts of calls that were cancelled.
        self._waiting = [call for call in self._waiting if not call[1].done()]
        while self._waiting and self._asking < self._in_flight:
            calls = self._waiting[: self._batch]
            del self._waiting[: self._batch]
            self._asking += 1
            request = asyncio.get_running_loop().create_task(self._request(calls))
            self._requests.add(request)
            request.add_done_callback(self._requests.discard)

    def _asked(self) -> None:
        """A request has its answer, so another may be sent."""
        self._asking -= 1
        if self._waiting:
            self._send()

    async def _pause(self, seconds: float) -> None:
        """Between two attempts of a batch, in which others may be sent."""
        self._asked()
        try:
            await asyncio.sleep(seconds)
        finally:
            self._asking += 1

    async def _request(self, calls: list[tuple[Item, asyncio.Future[Judgement]]]) -> None:
        def settle(place: int, outcome: Outcome) -> None:
            future = calls[place][1]
            if future.done():
                return
            if isinstance(outcome, VerifierError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        try:
            client = await self._client.on_background()
            await client.outcomes([item for item, _ in calls], settle, pause=self._pause)
        except BaseException as error:
            for _, future in calls:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._asked()


_shared: dict[tuple[object, ...], MicroBatcher] = {}
_lock = threading.Lock()


def shared(url: str | None, token: str | None, **settings: Any) -> MicroBatcher:
    """The process's batcher for these arguments, so that all calls with them share it."""
    # A batcher's state does not survive a fork.
    key = (os.getpid(), url, token, *sorted(settings.items()))
    if url is None or token is None:
        key = (*key, os.environ.get("RAPID_VERIFIER"), os.environ.get("RAPID_VERIFIER_TOKEN"))
    with _lock:
        found = _shared.get(key)
        if found is None:
            found = _shared[key] = MicroBatcher(url, token, **settings)
        return found
