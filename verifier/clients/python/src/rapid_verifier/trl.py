"""An entry of `reward_funcs` for TRL's trainers.

From 1.6 on, TRL leaves a completion out of its group if no reward function gives it a reward.
Before, it counts `None` as 0, so that this function raises `Unavailable` instead.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from rapid_verifier.client import Client
from rapid_verifier.errors import GroundTruthError
from rapid_verifier.ground_truth import GroundTruthIs, check_length
from rapid_verifier.messages import completion_text, prompt_text
from rapid_verifier.wire import Item

COLUMNS = ("task", "ground_truth", "answer", "solution")
"""The columns of a data set that may hold the ground truth."""

log = logging.getLogger(__name__)


def _none_counts_as_0() -> bool:
    """Whether the installed TRL is one before 1.6."""
    try:
        major, minor = metadata.version("trl").split(".")[:2]
        return (int(major), int(minor)) < (1, 6)
    except (metadata.PackageNotFoundError, ValueError):
        return False


class RewardFunction:
    """A reward function of TRL. `reward_func` makes it. It can be pickled."""

    def __init__(
        self,
        client: Client,
        column: str | None,
        ground_truth_is: GroundTruthIs,
        name: str,
        raises: bool,
    ) -> None:
        self.__name__ = name
        self._client = client
        self._column = column
        self._ground_truth_is: GroundTruthIs = ground_truth_is
        self._raises = raises

    def __call__(
        self,
        prompts: Sequence[object],
        completions: Sequence[object],
        completion_ids: Sequence[object] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """The rewards of the completions: 1 or 0, and `None` without a verdict or a ground truth.

        Raises `Unavailable` instead if the function was made so, or if TRL is older than 1.6;
        `GroundTruthError`, and other `VerifierError`s if repeating a request cannot help;
        `ValueError` if a column has another length than `completions`.
        """
        column = self._column_of(columns)
        truths = columns[column]
        check_length(column, truths, completions)
        check_length("prompts", prompts, completions)
        rewards: list[float | None] = [None] * len(completions)
        places = [place for place, truth in enumerate(truths) if truth is not None]
        items = [
            Item(
                self._client.task_of(truths[place], ground_truth_is=self._ground_truth_is),
                completion_text(completions[place]),
                prompt_text(prompts[place]),
            )
            for place in places
        ]
        judged = self._client.judge(items)
        for place, judgement in zip(places, judged, strict=True):
            rewards[place] = judgement.reward
        unavailable = [judgement for judgement in judged if judgement.reward is None]
        if unavailable and self._raises:
            unavailable[0].required()
        if unavailable:
            log.warning(
                "%d of %d completions got no verdict, and no reward: %s",
                len(unavailable),
                len(judged),
                unavailable[0].reason,
            )
        log_metric = columns.get("log_metric")
        if callable(log_metric) and judged:
            log_metric(f"{self.__name__}/unavailable", len(unavailable) / len(judged))
        return rewards

    def _column_of(self, columns: dict[str, Any]) -> str:
        if self._column is not None:
            if self._column in columns:
                return self._column
            raise GroundTruthError(
                f"the data set has no column `{self._column}`, only {', '.join(sorted(columns))}"
            )
        found = [name for name in COLUMNS if name in columns]
        if len(found) == 1:
            return found[0]
        names = " and ".join(found) if found else f"none of {', '.join(COLUMNS)}"
        raise GroundTruthError(
            f"the column of the ground truth is not clear: the data set has {names}. Name it: "
            "reward_func(column=…)"
        )


def reward_func(
    url: str | None = None,
    token: str | None = None,
    *,
    column: str | None = None,
    ground_truth_is: GroundTruthIs = "auto",
    name: str = "rapid_verifier",
    batch: int = 32,
    in_flight: int = 4,
    patience_s: float = 600.0,
    raises: bool = False,
) -> RewardFunction:
    """A reward function for `reward_funcs`.

    The ground truth is in `column`, or else in that one of `task`, `ground_truth`, `answer` and
    `solution` that the data set has. TRL logs the rewards, and the share of completions without a
    verdict, under `name`. With `raises`, a completion without a verdict stops the training with
    `Unavailable`, and is not given `None`. The other parameters are those of `Client`.
    """
    client = Client(url, token, batch=batch, in_flight=in_flight, patience_s=patience_s)
    raises = raises or _none_counts_as_0()
    return RewardFunction(client, column, ground_truth_is, name, raises)
