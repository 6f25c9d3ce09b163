"""The reward function of TRL, called as its GRPO trainer calls it."""

from __future__ import annotations

import pickle
from importlib import metadata
from typing import Any

import pytest

from rapid_verifier import GroundTruthError, TokenRefused, Unavailable
from rapid_verifier.trl import RewardFunction, reward_func
from service import Service

CODE = {"kind": "code", "entry_point": "f", "tests": [{"args": [1], "expected": 2}]}
LEAN = {"kind": "lean", "header": "", "statement": "theorem t : 1 + 1 = 2 := by"}


@pytest.fixture
def reward(service: Service) -> RewardFunction:
    return reward_func(service.url, service.token, patience_s=60)


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def test_texts_get_rewards_in_their_order(reward: RewardFunction) -> None:
    rewards = reward(
        prompts=["Half of one?"] * 3,
        completions=[r"\boxed{0.5}", r"\boxed{5}", "none"],
        completion_ids=[[1], [2], [3]],
        answer=[r"\frac12"] * 3,
        # TRL adds arguments of its own.
        trainer_state=None,
        log_extra=lambda name, column: None,
    )
    assert rewards == [1.0, 0.0, 0.0]


def test_messages_and_every_form_of_ground_truth_get_rewards(reward: RewardFunction) -> None:
    truths = [CODE, "starter-math/train-1", "10", 10]
    texts = ["def f(x): return x + 1", r"\boxed{10}", r"\boxed{10}", r"\boxed{11}"]
    prompts = [[{"role": "user", "content": "How much is 13 minus 3?"}]] * 4
    completions = [said(text) for text in texts]
    assert reward(prompts, completions, solution=truths) == [1.0, 1.0, 1.0, 0.0]


def test_without_a_verdict_or_a_ground_truth_the_reward_is_none(reward: RewardFunction) -> None:
    logged: dict[str, float] = {}
    rewards = reward(
        ["p"] * 3,
        ["rfl", r"\boxed{2}", r"\boxed{2}"],
        ground_truth=[LEAN, "2", None],
        log_metric=logged.__setitem__,
    )
    assert rewards == [None, 1.0, None]
    assert logged == {"rapid_verifier/unavailable": 0.5}


def test_in_an_outage_every_reward_is_none() -> None:
    reward = reward_func("http://127.0.0.1:9", patience_s=0)
    assert reward(["p"] * 2, ["1", "2"], answer=["1", "2"]) == [None, None]


def test_training_stops_in_an_outage_if_none_would_count_as_0(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def in_an_outage(raises: bool = False) -> list[float | None]:
        reward = reward_func("http://127.0.0.1:9", patience_s=0, raises=raises)
        return reward(["p"], ["1"], answer=["1"])

    with pytest.raises(Unavailable):
        in_an_outage(raises=True)
    for version, stops in [("0.29.1", True), ("1.5.1", True), ("1.6.0", False), ("2.0", False)]:
        monkeypatch.setattr(metadata, "version", lambda _, version=version: version)
        if stops:
            with pytest.raises(Unavailable):
                in_an_outage()
        else:
            assert in_an_outage() == [None], version


def test_the_column_is_the_one_that_is_named_or_the_only_one(service: Service) -> None:
    columns: dict[str, Any] = {"answer": ["a long explanation"], "label": ["2"]}
    named = reward_func(service.url, service.token, column="label")
    assert named(["p"], [r"\boxed{2}"], **columns) == [1.0]
    unnamed = reward_func(service.url, service.token)
    with pytest.raises(GroundTruthError, match="answer and solution"):
        unnamed(["p"], ["2"], answer=["2"], solution=["3"])
    with pytest.raises(GroundTruthError, match="none of task"):
        unnamed(["p"], ["2"], label=["2"])
    with pytest.raises(GroundTruthError, match="no column `label`"):
        named(["p"], ["2"], answer=["2"])


def test_a_column_of_another_length_is_named_with_both_lengths(reward: RewardFunction) -> None:
    for answers in (["2"], ["2"] * 3):
        with pytest.raises(ValueError, match=rf"`answer` .* {len(answers)}, .* 2 comp"):
            reward(["p"] * 2, ["2"] * 2, answer=answers)
    with pytest.raises(ValueError, match=r"`prompts` .* 1, .* 2 comp"):
        reward(["p"], ["2"] * 2, answer=["2"] * 2)


def test_a_wrong_token_stops_the_training(service: Service) -> None:
    with pytest.raises(TokenRefused):
        reward_func(service.url, "wrong")(["p"], ["2"], answer=["2"])


def test_it_has_a_name_and_can_be_pickled(service: Service) -> None:
    reward = reward_func(service.url, service.token, name="correct")
    copy: RewardFunction = pickle.loads(pickle.dumps(reward))
    assert copy.__name__ == "correct"
    assert copy(["p"], [r"\boxed{2}"], answer=["2"]) == [1.0]
