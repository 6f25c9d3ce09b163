"""The client for asyncio. Its connections are reused, and belong to one event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, TypeVar

import httpx

from rapid_verifier import address, ground_truth, wire
from rapid_verifier.errors import (
    AddressError,
    ConnectionFailed,
    InvalidAnswer,
    Problem,
    Redirected,
    Refused,
    RequestTimedOut,
    TokenRefused,
    Unavailable,
    VerifierError,
)
from rapid_verifier.ground_truth import GroundTruthIs
from rapid_verifier.patience import Limits, Outcome, Progress, Trouble
from rapid_verifier.version import VERSION
from rapid_verifier.wire import Item, Judgement, Task

MAX_ANSWER = 256 << 20
"""The longest answer that is read, in bytes."""
MAX_PROBLEM = 64 << 10
"""The longest answer with an error status that is read, in bytes."""
MAX_REDIRECTS = 10
CONNECT_TIMEOUT_S = 10.0
QUESTION_TIMEOUT_S = 30.0
"""Time limit of every request except those to judge."""

T = TypeVar("T")
Answer = tuple[httpx.Response, bytes]


class AsyncClient:
    """A client of one service.

    `url` is its address, or else `RAPID_VERIFIER` is; `token` is its bearer token, or else the
    password in the URL or `RAPID_VERIFIER_TOKEN` is. Requests hold at most `batch` items, and at
    most `in_flight` of them wait at once. What the service cannot judge now is sent again, with
    growing pauses, for `patience_s` seconds. `transport` replaces the connections, for tests.

    Raises `AddressError`. Nothing is sent yet.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        batch: int = 32,
        in_flight: int = 4,
        patience_s: float = 600.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._limits = Limits(batch, in_flight, patience_s)
        place = address.resolve(url, token)
        self._url, self._token = place.url, place.token
        self._in_flight = asyncio.Semaphore(in_flight)
        self._dataset_names: frozenset[str] | None = None
        headers = {
            "accept": "application/json",
            "user-agent": f"rapid-verifier-client/{VERSION}",
        }
        if place.token is not None:
            headers["authorization"] = f"Bearer {place.token}"
        try:
            self._http = httpx.AsyncClient(
                base_url=place.url,
                headers=headers,
                # The time limit of a whole request is `_ask`'s.
                timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=in_flight + 1),
                transport=transport,
            )
        except httpx.InvalidURL as error:
            raise AddressError(f"`{place.url}` is not an address: {error}") from error

    @property
    def url(self) -> str:
        """The service's address, without credentials."""
        return self._url

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def verify(
        self,
        task: Task,
        completions: Sequence[str],
        *,
        prompt: str = "",
        all_tests: bool = False,
    ) -> list[Judgement]:
        """Judges completions of one task, in their order. Each judgement has a reward.

        Raises `Unavailable` if any of them gets no verdict, and as `judge`.
        """
        if isinstance(completions, str):
            raise TypeError("`completions` is one text; give a list of texts")
        items = [Item(task, completion, prompt, all_tests) for completion in completions]
        judged = await self.judge(items)
        for judgement in judged:
            judgement.required()
        return judged

    async def judge(self, items: Iterable[Item]) -> list[Judgement]:
        """Judges items, in their order.

        An item without a verdict has the verdict `unavailable` and no reward, which is never 0.

        Raises `VerifierError` if repeating the request cannot help: a wrong token, or an item that
        the service refuses.
        """
        listed = list(items)
        judged: list[Judgement] = []
        for outcome in await self.outcomes(listed, stop_at_error=True):
            if isinstance(outcome, VerifierError):
                raise outcome
            judged.append(outcome)
        return judged

    async def outcomes(
        self,
        items: Sequence[Item],
        settled: Callable[[int, Outcome], None] | None = None,
        stop_at_error: bool = False,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> list[Outcome]:
        """As `judge`, but an item that the service refuses does not affect the others.

        `settled` is called with each place and outcome as soon as it is known. With
        `stop_at_error`, the first refusal is raised. `pause` waits between two attempts.
        """
        size = self._limits.batch
        batches = [
            self._batch(items[start : start + size], start, settled, stop_at_error, pause)
            for start in range(0, len(items), size)
        ]
        found = await _all(batches)
        return [outcome for batch in found for outcome in batch]

    async def _batch(
        self,
        items: Sequence[Item],
        start: int,
        settled: Callable[[int, Outcome], None] | None,
        stop_at_error: bool,
        pause: Callable[[float], Awaitable[None]],
    ) -> list[Outcome]:
        progress = Progress(self._url, len(items), self._limits)
        while places := progress.open():
            begun = time.monotonic()
            try:
                async with self._in_flight:
                    progress.queued(time.monotonic() - begun)
                    answers = await self._verify_once([items[place] for place in places])
            except VerifierError as error:
                seconds = progress.failed(places, error)
            else:
                seconds = progress.answered(places, answers)
            for place, outcome in progress.news():
                if stop_at_error and isinstance(outcome, VerifierError):
                    raise outcome
                if settled is not None:
                    settled(start + place, outcome)
            if seconds is not None:
                await pause(seconds)
        return [outcome for outcome in progress.outcomes if outcome is not None]

    async def _verify_once(self, items: Sequence[Item]) -> list[Judgement | Refused]:
        url = f"{self._url}v1/verify"
        # A service that does not know the parameter refuses the request, and names one bad item.
        response, answer = await self._ask(
            "POST", "v1/verify?errors=item", self._limits.request_timeout_s, wire.body(items)
        )
        self._check(url, response, answer)
        return wire.judgements(url, self._url, answer, len(items))

    async def task_of(self, truth: object, *, ground_truth_is: GroundTruthIs = "auto") -> Task:
        """The task that a ground truth of a data set means.

        A bare label (text or a number) is the answer of a mathematics problem; of a text with
        `####`, as in GSM8K, what follows the last one is. A mapping, or JSON, with `kind` is a
        whole task. `DATASET/ID` is a task of the service, if it has the data set; the service is
        asked once.

        Raises `GroundTruthError` for anything else and for what could be two of these, and
        `Unavailable` if the service does not answer.
        """
        return await ground_truth.read(truth, self._names, ground_truth_is)

    async def _names(self, again: bool) -> frozenset[str]:
        if self._dataset_names is None or again:
            trouble = Trouble(self._limits.patience_s)
            while True:
                try:
                    found = await self.datasets()
                    break
                except VerifierError as error:
                    if not error.retryable:
                        raise
                    pause = trouble.pause(error.retry_after)
                    if pause is None:
                        raise Unavailable(self._url, str(error)) from error
                    await asyncio.sleep(pause)
            self._dataset_names = frozenset(dataset.name for dataset in found)
        return self._dataset_names

    async def info(self) -> wire.ServiceInfo:
        """The service's versions, graders, data sets and limits. One attempt."""
        return await self._question("v1/info", wire.service_info)

    async def datasets(self) -> tuple[wire.Dataset, ...]:
        """The data sets with tasks that a request can name. One attempt."""
        return await self._question("v1/datasets", wire.datasets)

    async def ready(self) -> wire.Readiness:
        """Whether the service is ready. The answer that it is not is no error. One attempt."""
        url = f"{self._url}readyz"
        response, answer = await self._ask("GET", "readyz", QUESTION_TIMEOUT_S)
        if response.status_code == 503:
            try:
                return wire.readiness(url, answer)
            except InvalidAnswer:
                pass  # A load balancer's page.
        self._check(url, response, answer)
        return wire.readiness(url, answer)

    async def healthy(self) -> bool:
        """Whether a process answers at the address. One attempt."""
        try:
            response, _ = await self._ask("GET", "healthz", QUESTION_TIMEOUT_S)
        except VerifierError:
            return False
        return response.is_success

    async def verdict(self, key: str) -> wire.StoredVerdict | None:
        """The verdict that the service's cache holds under `key`, or `None`. One attempt."""
        try:
            return await self._question(f"v1/verdicts/{key}", wire.stored_verdict)
        except Refused as error:
            if error.problem.status == 404 and error.problem.kind.endswith("/unknown-key"):
                return None
            raise

    async def _question(self, path: str, read: Callable[[str, bytes], T]) -> T:
        url = f"{self._url}{path}"
        response, answer = await self._ask("GET", path, QUESTION_TIMEOUT_S)
        self._check(url, response, answer)
        return read(url, answer)

    async def _ask(
        self, method: str, path: str, timeout_s: float, body: bytes | None = None
    ) -> Answer:
        """Sends one request and reads the answer, within `timeout_s`."""
        url = f"{self._url}{path}"
        headers = {} if body is None else {"content-type": "application/json"}
        request = self._http.build_request(method, path, content=body, headers=headers)
        try:
            return await asyncio.wait_for(self._exchange(url, request), timeout_s)
        except asyncio.TimeoutError:
            raise RequestTimedOut(url, timeout_s) from None
        except httpx.DecodingError as error:
            raise InvalidAnswer(url, str(error)) from error
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise ConnectionFailed(url, reason) from error

    async def _exchange(
        self, url: str, request: httpx.Request, redirects: int = MAX_REDIRECTS
    ) -> Answer:
        response = await self._http.send(request, stream=True)
        try:
            if (target := response.next_request) is not None:
                if _origin(target.url) != _origin(request.url):
                    raise Redirected(url, f"{_origin(target.url)}{target.url.path}")
                if redirects == 0:
                    raise InvalidAnswer(url, f"it redirects more than {MAX_REDIRECTS} times")
                return await self._exchange(url, target, redirects - 1)
            limit = MAX_ANSWER if response.is_success else MAX_PROBLEM
            answer = bytearray()
            async for piece in response.aiter_bytes():
                answer += piece
                if len(answer) > limit:
                    if response.is_success:
                        reason = f"its answer is longer than {limit >> 20} MiB"
                        raise InvalidAnswer(url, reason)
                    break
            return response, bytes(answer)
        finally:
            await response.aclose()

    def _check(self, url: str, response: httpx.Response, answer: bytes) -> None:
        if response.is_success:
            return
        problem = _problem(response.status_code, response.reason_phrase, answer)
        wait = _retry_after(response)
        if problem.status == 401:
            raise TokenRefused(url, problem, wait, self._token is not None)
        raise Refused(url, problem, wait)


async def _all(coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Runs them at once. The first error cancels the others and is raised."""
    if len(coroutines) == 1:
        return [await coroutines[0]]
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _origin(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _problem(status: int, phrase: str, answer: bytes) -> Problem:
    try:
        found = wire.parsed("", answer)
    except InvalidAnswer:
        return Problem(status, title=phrase, detail=answer.decode("utf-8", "replace")[:500])
    return wire.problem(found, status, phrase)


def _retry_after(response: httpx.Response) -> float | None:
    text = response.headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() else None
