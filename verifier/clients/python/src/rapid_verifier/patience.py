"""When a request is repeated, in which parts, and when the client gives up.

The rules are those of the trainer `rapid`. Nothing here waits or sends.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rapid_verifier.errors import Refused, VerifierError
from rapid_verifier.wire import Judgement, masked

FIRST_PAUSE_S = 0.25
"""First pause before a request is repeated; doubled each time."""
LONGEST_PAUSE_S = 15.0
"""Longest pause, unless the service's `Retry-After` is longer."""
MIN_REQUEST_TIMEOUT_S = 3600.0
"""Minimum time limit of a request. Some tasks need many minutes."""

Outcome = Judgement | VerifierError
"""What became of an item: a judgement, or the refusal of this item."""


@dataclass(frozen=True)
class Limits:
    """How much is sent at once, and for how long."""

    batch: int = 32
    """Maximum number of items in one request."""
    in_flight: int = 4
    """Maximum number of requests that wait for an answer at once."""
    patience_s: float = 600.0
    """Seconds for which requests without a verdict are repeated. 0: one attempt."""

    def __post_init__(self) -> None:
        if self.batch < 1 or self.in_flight < 1 or not self.patience_s >= 0:
            raise ValueError(
                f"batch={self.batch} and in_flight={self.in_flight} have to be at least 1, and "
                f"patience_s={self.patience_s} at least 0"
            )

    @property
    def request_timeout_s(self) -> float:
        """Time limit of one request to judge."""
        return max(self.patience_s, MIN_REQUEST_TIMEOUT_S)


class Trouble:
    """A period in which the service gives no verdict."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._since: float | None = None
        self._tries = 0

    def pause(self, retry_after: float | None = None) -> float | None:
        """Seconds until the next attempt; `None` if the patience has ended.

        A pause doubles from attempt to attempt, times a random factor between a half and 1, so
        that clients that failed together do not return together. It is at least `retry_after`,
        and ends with the patience, so that there is a last attempt.
        """
        now = time.monotonic()
        if self._since is None:
            self._since = now
        left = self._patience_s - (now - self._since)
        if left <= 0:
            return None
        whole = min(FIRST_PAUSE_S * 2.0 ** min(self._tries, 10), LONGEST_PAUSE_S)
        self._tries += 1
        return min(max(whole * random.uniform(0.5, 1.0), retry_after or 0.0), left)

    def leave_out(self, seconds: float) -> None:
        """Nothing was asked of the service for so long."""
        if self._since is not None:
            self._since += seconds

    def end(self) -> None:
        """There was a verdict, so the next trouble begins anew."""
        self._since, self._tries = None, 0


class Progress:
    """The items of a batch, with the outcomes so far."""

    def __init__(self, url: str, count: int, limits: Limits) -> None:
        self.outcomes: list[Outcome | None] = [None] * count
        self._url = url
        self._no_patience = limits.patience_s == 0
        self._trouble = Trouble(limits.patience_s)
        # Halved if the service refuses a request as too large.
        self._size = count
        self._reported: set[int] = set()

    def queued(self, seconds: float) -> None:
        """A request waited so long until fewer were in flight, which may all be answered."""
        self._trouble.leave_out(seconds)

    def open(self) -> list[int]:
        """The places of the items to send next; empty if every item has an outcome."""
        places = [place for place, outcome in enumerate(self.outcomes) if outcome is None]
        return places[: self._size]

    def answered(
        self, places: Sequence[int], answers: Sequence[Judgement | Refused]
    ) -> float | None:
        """Stores the answers to the items at `places`. Returns the pause before the next request.

        Items that are `unavailable` for now stay open.
        """
        reason = ""
        for place, answer in zip(places, answers, strict=True):
            if isinstance(answer, Refused):
                self.outcomes[place] = answer
                continue
            if answer.reward is None and answer.retryable and not self._no_patience:
                reason = answer.reason
                continue
            self.outcomes[place] = answer
            if answer.reward is not None:
                self._trouble.end()
        if not reason:
            return None
        return self._wait_or_mask(f"it answers `unavailable` for now ({reason})", None)

    def failed(self, places: Sequence[int], error: VerifierError) -> float | None:
        """The request for the items at `places` failed. Returns the pause before the next one."""
        if _too_many(error) and len(places) > 1:
            self._size = len(places) // 2
            return None
        if error.retryable:
            return self._wait_or_mask(str(error), error.retry_after)
        item = error.problem.item if isinstance(error, Refused) else None
        if item is not None and 0 <= item < len(places):
            # The service judges none of the items, but only this one is at fault.
            self.outcomes[places[item]] = error
            return None
        for place, outcome in enumerate(self.outcomes):
            if outcome is None:
                self.outcomes[place] = error
        return None

    def news(self) -> list[tuple[int, Outcome]]:
        """The places and outcomes of the items that have got one since the last call."""
        found = [
            (place, outcome)
            for place, outcome in enumerate(self.outcomes)
            if outcome is not None and place not in self._reported
        ]
        self._reported.update(place for place, _ in found)
        return found

    def _wait_or_mask(self, reason: str, retry_after: float | None) -> float | None:
        pause = self._trouble.pause(retry_after)
        if pause is None:
            for place, outcome in enumerate(self.outcomes):
                if outcome is None:
                    self.outcomes[place] = masked(self._url, reason)
        return pause


def _too_many(error: VerifierError) -> bool:
    """Whether the service may accept a request with fewer items."""
    if not isinstance(error, Refused):
        return False
    problem = error.problem
    return problem.status == 413 or (problem.status == 422 and problem.field == "items")
