"""The blocking client. Its connections are reused by all threads of the process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from rapid_verifier import address, background, wire
from rapid_verifier.async_client import AsyncClient
from rapid_verifier.ground_truth import GroundTruthIs
from rapid_verifier.patience import Limits
from rapid_verifier.wire import Item, Judgement, Task


class Client:
    """As `AsyncClient`, with methods that block. It may be shared by threads, pickled, and used
    after a fork.

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
    ) -> None:
        self._address = address.resolve(url, token)
        self._limits = Limits(batch, in_flight, patience_s)
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._client: AsyncClient | None = None
        self._process = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {"_address": self._address, "_limits": self._limits}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The service's address, without credentials."""
        return self._address.url

    async def on_background(self) -> AsyncClient:
        """The client behind this one. It belongs to the loop of `background`."""
        if self._process != os.getpid():
            self._forget()
        with self._lock:
            if self._client is None:
                self._client = AsyncClient(
                    self._address.url,
                    self._address.token,
                    batch=self._limits.batch,
                    in_flight=self._limits.in_flight,
                    patience_s=self._limits.patience_s,
                )
            return self._client

    def close(self) -> None:
        """Closes the connections. A later call opens new ones."""
        client, self._client = self._client, None
        if client is not None and self._process == os.getpid():
            background.run(client.close())

    def verify(
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

        async def call() -> list[Judgement]:
            client = await self.on_background()
            return await client.verify(task, completions, prompt=prompt, all_tests=all_tests)

        return background.run(call())

    def judge(self, items: Iterable[Item]) -> list[Judgement]:
        """Judges items, in their order.

        An item without a verdict has the verdict `unavailable` and no reward, which is never 0.

        Raises `VerifierError` if repeating the request cannot help: a wrong token, or an item that
        the service refuses.
        """
        listed = list(items)

        async def call() -> list[Judgement]:
            return await (await self.on_background()).judge(listed)

        return background.run(call())

    def task_of(self, truth: object, *, ground_truth_is: GroundTruthIs = "auto") -> Task:
        """The task that a ground truth of a data set means. See `AsyncClient.task_of`."""

        async def call() -> Task:
            client = await self.on_background()
            return await client.task_of(truth, ground_truth_is=ground_truth_is)

        return background.run(call())

    def info(self) -> wire.ServiceInfo:
        """The service's versions, graders, data sets and limits. One attempt."""

        async def call() -> wire.ServiceInfo:
            return await (await self.on_background()).info()

        return background.run(call())

    def datasets(self) -> tuple[wire.Dataset, ...]:
        """The data sets with tasks that a request can name. One attempt."""

        async def call() -> tuple[wire.Dataset, ...]:
            return await (await self.on_background()).datasets()

        return background.run(call())

    def ready(self) -> wire.Readiness:
        """Whether the service is ready. The answer that it is not is no error. One attempt."""

        async def call() -> wire.Readiness:
            return await (await self.on_background()).ready()

        return background.run(call())

    def healthy(self) -> bool:
        """Whether a process answers at the address. One attempt."""

        async def call() -> bool:
            return await (await self.on_background()).healthy()

        return background.run(call())

    def verdict(self, key: str) -> wire.StoredVerdict | None:
        """The verdict that the service's cache holds under `key`, or `None`. One attempt."""

        async def call() -> wire.StoredVerdict | None:
            return await (await self.on_background()).verdict(key)

        return background.run(call())
