"""The bodies of the service's routes: items to judge, judgements, and descriptions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, cast

from rapid_verifier.errors import InvalidAnswer, ItemError, Problem, Refused, Unavailable, shown
from rapid_verifier.python_value import tagged

Verdict = Literal["correct", "incorrect", "malformed", "timeout", "memory", "unavailable"]
VERDICTS = frozenset(("correct", "incorrect", "malformed", "timeout", "memory", "unavailable"))


class MathTask(TypedDict):
    """A question with one final answer."""

    kind: Literal["math"]
    answer: str | int | float


class _CodeTest(TypedDict):
    args: Sequence[Any]


class CodeTest(_CodeTest, total=False):
    """A call and the value that it must return.

    `expected` may be absent if the task has a `canonical` solution. Values are Python's own:
    tuples, sets, bytes and so on are sent in the service's tagged form.
    """

    expected: Any


class _CodeTask(TypedDict):
    kind: Literal["code"]
    entry_point: str


class CodeTask(_CodeTask, total=False):
    """A Python function to write. It needs at least one of `tests` and `asserts`."""

    tests: Sequence[CodeTest]
    asserts: Sequence[str]
    prefix: str
    canonical: str
    imports: Sequence[str]
    atol: float
    compare: Literal["equal", "set", "not-none"]
    class_name: str
    time_limit: float


class ProgramTest(TypedDict):
    """A run of a program: what it reads from standard input, and what it must write."""

    stdin: str
    stdout: str


class _ProgramTask(TypedDict):
    kind: Literal["program"]
    tests: Sequence[ProgramTest]


class ProgramTask(_ProgramTask, total=False):
    """A Python program to write, which reads standard input and writes standard output."""

    time_limit: float


class LeanTask(TypedDict):
    """A theorem to prove in Lean 4. `statement` ends in `:= by`."""

    kind: Literal["lean"]
    header: str
    statement: str


Task = str | MathTask | CodeTask | ProgramTask | LeanTask | Mapping[str, Any]
"""The id of a task in a data set of the service (`"mbppplus/2"`), or a whole task."""


@dataclass(frozen=True)
class Item:
    """One completion to judge."""

    task: Task
    completion: str
    """The model's text after the prompt."""
    prompt: str = ""
    """The prompt as the model saw it. The verdict's key depends on it, and the grader of
    mathematics reads from it what is counted and in which unit."""
    all_tests: bool = False
    """Whether all tests of a program run, instead of those up to the first failure."""
    task_digest: str | None = None
    """With a task's id: the digest of the task that is meant. Another task is refused."""


@dataclass(frozen=True)
class Judgement:
    """The service's decision on one item."""

    reward: float | None
    """1 or 0, or from an operator's own grader a number between them; `None` exactly if the verdict
    is `unavailable`."""
    verdict: Verdict
    detail: Mapping[str, Any] = field(default_factory=dict)
    """The reason: the first failing test, the extracted answer, Lean's messages, …"""
    passed: int | None = None
    """Number of tests that passed, for code only."""
    total: int | None = None
    """Number of all tests, for code only."""
    terms: Mapping[str, float] = field(default_factory=dict)
    """Parts of the reward by name, from an operator's own grader."""
    retryable: bool = False
    """With `unavailable`: whether the same request may succeed later."""
    key: str = ""
    """A digest of everything that the verdict depends on; empty if there is no answer."""
    cached: bool = False
    deterministic: bool = True
    """Whether the verdict is a pure function of the key."""
    elapsed_ms: float = 0.0
    """Time of judging, in milliseconds."""
    url: str = ""
    """The service's address."""

    @property
    def reason(self) -> str:
        """Why there is no verdict."""
        return shown(str(self.detail.get("reason") or "no reason given"))

    def required(self) -> float:
        """The reward. Raises `Unavailable` if there is none."""
        if self.reward is None:
            raise Unavailable(self.url, self.reason, self.retryable)
        return self.reward


def masked(url: str, reason: str) -> Judgement:
    """The judgement of an item about which the service said nothing."""
    return Judgement(None, "unavailable", {"reason": reason}, retryable=True, url=url)


def body(items: Iterable[Item]) -> bytes:
    """The body of `POST /v1/verify`. An item's id is its place in the request.

    Raises `ItemError` for a value that JSON cannot express.
    """
    written = [_item(place, item) for place, item in enumerate(items)]
    try:
        # Escapes keep halves of surrogate pairs, which models produce and UTF-8 has not.
        return json.dumps({"items": written}, allow_nan=False).encode("ascii")
    except (TypeError, ValueError) as error:
        raise ItemError(f"an item cannot be written as JSON: {error}") from error


def _item(place: int, item: Item) -> dict[str, Any]:
    if not isinstance(item.completion, str) or not isinstance(item.prompt, str):
        raise ItemError("the completion and the prompt of an item have to be strings")
    written: dict[str, Any] = {
        "id": str(place),
        "task": item.task if isinstance(item.task, str) else _task(item.task),
        "prompt": item.prompt,
        "completion": item.completion,
    }
    if item.task_digest is not None:
        written["task_digest"] = item.task_digest
    if item.all_tests:
        written["all_tests"] = True
    return written


def _task(task: Mapping[str, Any]) -> dict[str, Any]:
    written = dict(task)
    tests = written.get("tests")
    if isinstance(tests, (list, tuple)):
        written["tests"] = [_test(test) for test in tests]
    return written


def _test(test: object) -> object:
    if not isinstance(test, Mapping):
        return test
    written = dict(test)
    if isinstance(written.get("args"), (list, tuple)):
        written["args"] = [tagged(argument) for argument in written["args"]]
    if "expected" in written:
        written["expected"] = tagged(written["expected"])
    return written


def judgements(url: str, base: str, answer: bytes, count: int) -> list[Judgement | Refused]:
    """The judgements of `count` items, in their order, from the body of an answer of `url`. An item
    that the service cannot use has a refusal instead.

    Raises `InvalidAnswer` if they are not those of the items.
    """
    results = parsed(url, answer).get("results")
    if not isinstance(results, list) or len(results) != count:
        received = len(results) if isinstance(results, list) else "no"
        raise InvalidAnswer(url, f"{count} items were sent and {received} judgements received")
    return [_judgement(url, base, place, result) for place, result in enumerate(results)]


def parsed(url: str, answer: bytes) -> dict[str, Any]:
    """The object in an answer's body. Raises `InvalidAnswer` if it holds none."""
    try:
        value = json.loads(answer, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidAnswer(url, f"the body is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise InvalidAnswer(url, "the body is not a JSON object")
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def problem(found: Mapping[str, Any], status: int, title: str = "") -> Problem:
    """The problem document `found`, of an answer with this status."""
    item, place = found.get("item"), found.get("field")
    return Problem(
        status=status,
        kind=str(found.get("type", "about:blank")),
        title=str(found.get("title", "")) or title,
        detail=str(found.get("detail", "")),
        item=item if isinstance(item, int) else None,
        field=place if isinstance(place, str) else None,
    )


def _judgement(url: str, base: str, place: int, result: object) -> Judgement | Refused:
    if not isinstance(result, dict):
        raise InvalidAnswer(url, f"the judgement {place} is not an object")
    if result.get("id") != str(place):
        raise InvalidAnswer(
            url, f"the judgement of `{result.get('id')}` was received instead of that of `{place}`"
        )
    verdict, reward = result.get("verdict"), result.get("reward", "missing")
    if verdict not in VERDICTS:
        raise InvalidAnswer(url, f"`{verdict}` is no verdict that this package knows")
    if reward is not None and (
        isinstance(reward, bool)
        or not isinstance(reward, (int, float))
        or not math.isfinite(reward)
    ):
        raise InvalidAnswer(url, f"the reward of the judgement {place} is {reward!r}")
    detail = result.get("detail")
    detail = detail if isinstance(detail, dict) else {}
    refusal = detail.get("problem")
    if verdict == "unavailable" and isinstance(refusal, dict):
        return Refused(url, problem(refusal, 422))
    # A verdict without a reward is none.
    if reward is None:
        verdict = "unavailable"
    elif not _fits(reward, verdict):
        raise InvalidAnswer(
            url,
            f"the reward of the judgement {place} is {reward!r} with the verdict `{verdict}`; it "
            "has to be 1 if the verdict is `correct`, at least 0 and below 1 if it is `incorrect`, "
            "null if it is `unavailable`, and 0 for any other",
        )
    return Judgement(
        reward=None if reward is None else float(reward),
        verdict=cast(Verdict, verdict),
        detail=detail,
        passed=_whole(result.get("passed")),
        total=_whole(result.get("total")),
        terms=_terms(result.get("terms")),
        retryable=result.get("retryable") is True,
        key=str(result.get("key", "")),
        cached=result.get("cached") is True,
        deterministic=result.get("deterministic") is True,
        elapsed_ms=float(result.get("elapsed_ms") or 0.0),
        url=base,
    )


def _fits(reward: float, verdict: object) -> bool:
    """Whether a verdict can have this reward."""
    if verdict == "correct":
        return reward == 1
    if verdict == "incorrect":
        return 0 <= reward < 1
    return verdict != "unavailable" and reward == 0


def _terms(value: object) -> dict[str, float]:
    terms = value if isinstance(value, dict) else {}
    return {str(k): float(v) for k, v in terms.items() if isinstance(v, (int, float))}


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True)
class Grader:
    """A grader of the service."""

    name: str
    """`math`, `code`, `lean`, or the operator's own."""
    version: str
    """Changes whenever the same item may get another verdict."""
    state: str
    """`preparing`, `ready`, or `unavailable`, until somebody repairs it."""
    reason: str | None = None
    """Why it cannot judge, and what to do about it."""
    policy: str | None = None
    """Settings that change verdicts, such as `boxed, standard`."""


@dataclass(frozen=True)
class Dataset:
    """A data set with tasks that a request can name."""

    name: str
    """The part of a task's id before the first slash."""
    graders: tuple[str, ...]
    train: int
    """Number of tasks to train on."""
    eval: int
    """Number of tasks held out for evaluation."""
    digest: str


@dataclass(frozen=True)
class ServiceInfo:
    """Versions of the service and its graders, its data sets, and the limits of a request."""

    version: str
    api: str
    graders: tuple[Grader, ...]
    datasets: tuple[Dataset, ...]
    limits: Mapping[str, int]
    """`body_bytes`, `items` and `queue`."""


@dataclass(frozen=True)
class Readiness:
    """Whether the service is ready, and the state of each grader."""

    ready: bool
    graders: tuple[Grader, ...]


@dataclass(frozen=True)
class StoredVerdict:
    """A verdict from the service's cache."""

    key: str
    reward: float | None
    verdict: Verdict
    detail: Mapping[str, Any]
    passed: int | None
    total: int | None
    deterministic: bool


def service_info(url: str, answer: bytes) -> ServiceInfo:
    """The body of `GET /v1/info`."""
    found = parsed(url, answer)
    try:
        return ServiceInfo(
            version=found["version"],
            api=found["api"],
            graders=_graders(found),
            datasets=_datasets(found),
            limits=dict(found["limits"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidAnswer(url, f"a field is missing or wrong ({error!r})") from error


def datasets(url: str, answer: bytes) -> tuple[Dataset, ...]:
    """The body of `GET /v1/datasets`."""
    try:
        return _datasets(parsed(url, answer))
    except (KeyError, TypeError) as error:
        raise InvalidAnswer(url, f"a field is missing or wrong ({error!r})") from error


def readiness(url: str, answer: bytes) -> Readiness:
    """The body of `GET /readyz`."""
    found = parsed(url, answer)
    try:
        return Readiness(ready=found["ready"] is True, graders=_graders(found))
    except (KeyError, TypeError) as error:
        raise InvalidAnswer(url, f"a field is missing or wrong ({error!r})") from error


def stored_verdict(url: str, answer: bytes) -> StoredVerdict:
    """The body of `GET /v1/verdicts/{key}`."""
    found = parsed(url, answer)
    if found.get("verdict") not in VERDICTS:
        raise InvalidAnswer(url, "it has no verdict")
    reward = found.get("reward")
    return StoredVerdict(
        key=str(found.get("key", "")),
        reward=None if reward is None else float(reward),
        verdict=found["verdict"],
        detail=dict(found.get("detail") or {}),
        passed=_whole(found.get("passed")),
        total=_whole(found.get("total")),
        deterministic=found.get("deterministic") is True,
    )


def _graders(found: dict[str, Any]) -> tuple[Grader, ...]:
    return tuple(
        Grader(
            name=grader["name"],
            version=grader["version"],
            state=grader["state"],
            reason=grader.get("reason"),
            policy=grader.get("policy"),
        )
        for grader in found["graders"]
    )


def _datasets(found: dict[str, Any]) -> tuple[Dataset, ...]:
    return tuple(
        Dataset(
            name=dataset["name"],
            graders=tuple(dataset["graders"]),
            train=dataset["train"],
            eval=dataset["eval"],
            digest=dataset["digest"],
        )
        for dataset in found["datasets"]
    )
