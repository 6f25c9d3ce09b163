"""Environments of one turn: a prompt is the observation, a completion the action.

`SingleTurnEnv` has the interface of OpenEnv's environments, `SkyRLEnv` that of SkyRL-gym's. Neither
package is imported. To register an environment with one of them, derive from its base class too.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeVar

from rapid_verifier import micro_batch
from rapid_verifier.errors import GroundTruthError
from rapid_verifier.ground_truth import GroundTruthIs
from rapid_verifier.messages import completion_text, prompt_text
from rapid_verifier.wire import Judgement


@dataclass
class Observation:
    """What the policy sees, and what it got for its last action."""

    prompt: Any = ""
    """Text or messages."""
    done: bool = False
    reward: float | None = None
    """1 or 0 after a step; `None` before."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """After a step: `verdict`, `detail`, `key`, and for code `passed` and `total`."""


@dataclass
class State:
    """The episode's state."""

    episode_id: str | None = None
    step_count: int = 0

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """The fields. OpenEnv's server reads them by this name, which is pydantic's."""
        return asdict(self)


ObservationType = TypeVar("ObservationType")


class SingleTurnEnv(Generic[ObservationType]):
    """An environment with episodes of one step.

    `tasks` are pairs of a prompt and a ground truth. `observation` makes observations from the
    fields of `Observation`; give the package's own type where it needs one. The other parameters
    are those of `MicroBatcher`: the steps of many environments are sent together.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self,
        tasks: Sequence[tuple[Any, Any]],
        url: str | None = None,
        token: str | None = None,
        *,
        observation: Callable[..., ObservationType] = Observation,  # type: ignore[assignment]
        ground_truth_is: GroundTruthIs = "auto",
        patience_s: float = 600.0,
    ) -> None:
        if not tasks:
            raise ValueError("an environment needs at least one task")
        self._tasks = tasks
        self._observation = observation
        self._ground_truth_is: GroundTruthIs = ground_truth_is
        self._batcher = micro_batch.shared(url, token, patience_s=patience_s)
        self._next = 0
        self._current: tuple[Any, Any] | None = None
        self._state = State()

    @property
    def state(self) -> Any:
        """The episode's state."""
        return self._state

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> ObservationType:
        """Starts an episode: with the task number `seed` (modulo their count), or the next one."""
        number = self._next if seed is None else seed
        self._next = number + 1
        self._current = self._tasks[number % len(self._tasks)]
        self._state = State(episode_id or str(uuid.uuid4()))
        return self._observation(prompt=self._current[0], done=False, reward=None, metadata={})

    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> ObservationType:
        """As `reset`."""
        return self.reset(seed, episode_id, **kwargs)

    def step(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> ObservationType:
        """Judges the completion, and ends the episode.

        The action is text, messages, or an object with one of these as `completion`.

        Raises `Unavailable` without a verdict. The episode goes on, and the step can be repeated.
        """
        prompt, truth = self._open()
        judged = self._batcher.judge_truth(
            truth, _text(action), prompt_text(prompt), self._ground_truth_is
        )
        return self._ended(prompt, judged)

    async def step_async(
        self, action: Any, timeout_s: float | None = None, **kwargs: Any
    ) -> ObservationType:
        """As `step`, as a coroutine."""
        prompt, truth = self._open()
        judged = await self._batcher.judge_truth_async(
            truth, _text(action), prompt_text(prompt), self._ground_truth_is
        )
        return self._ended(prompt, judged)

    def close(self) -> None:
        """Ends the episode."""
        self._current = None

    def _open(self) -> tuple[Any, Any]:
        if self._current is None:
            raise RuntimeError("no episode is open: call reset() before step()")
        return self._current

    def _ended(self, prompt: Any, judgement: Judgement) -> ObservationType:
        reward = judgement.required()
        self._current = None
        self._state.step_count += 1
        return self._observation(
            prompt=prompt, done=True, reward=reward, metadata=_metadata(judgement)
        )


class SkyRLEnv:
    """An environment of SkyRL-gym. The ground truth is `extras["reward_spec"]["ground_truth"]`.

    `env_config` may have `url`, `token`, `patience_s` and `ground_truth_is`.
    """

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        spec = (extras or {}).get("reward_spec")
        if not isinstance(spec, Mapping) or spec.get("ground_truth") is None:
            raise GroundTruthError('`extras` has no ["reward_spec"]["ground_truth"]')
        setting: Callable[[str, Any], Any] = getattr(env_config, "get", lambda _, default: default)
        self._truth = spec["ground_truth"]
        self._ground_truth_is: GroundTruthIs = setting("ground_truth_is", "auto")
        self._batcher = micro_batch.shared(
            setting("url", None),
            setting("token", None),
            patience_s=setting("patience_s", 600.0),
        )
        self._prompt: Any = ""
        self._metadata: dict[str, Any] = {}

    def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:
        """Starts the episode. The first observation is the prompt."""
        self._prompt = prompt
        return prompt, {}

    def step(self, action: str) -> dict[str, Any]:
        """Judges the completion, and ends the episode.

        Raises `Unavailable` without a verdict.
        """
        judged = self._batcher.judge_truth(
            self._truth, _text(action), prompt_text(self._prompt), self._ground_truth_is
        )
        reward = judged.required()
        self._metadata = _metadata(judged)
        return {"observations": [], "reward": reward, "done": True, "metadata": self._metadata}

    def get_metrics(self) -> dict[str, Any]:
        """The metrics of the episode: none besides the reward."""
        return {}

    def close(self) -> None:
        """Nothing: the connections are the process's."""


def _text(action: Any) -> str:
    return completion_text(getattr(action, "completion", action))


def _metadata(judgement: Judgement) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "verdict": judgement.verdict,
        "detail": dict(judgement.detail),
        "key": judgement.key,
    }
    if judgement.total is not None:
        metadata |= {"passed": judgement.passed, "total": judgement.total}
    return metadata
