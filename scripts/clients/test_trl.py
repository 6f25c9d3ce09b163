"""TRL's own `GRPOTrainer` trains a model, while the service is restarted or overloaded."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from overload import TRUTH, completion, load, overloaded, right
from rapid_verifier.trl import RewardFunction, reward_func
from service import Service
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

PACKAGE = "trl"
STEPS, OUTAGE = 5, (2, 3)
"""The service is down in the steps of the outage, counted from 0."""

Rewards = list[float | None]


class Outage(TrainerCallback):
    def __init__(self, service: Service) -> None:
        self.service = service

    def on_step_begin(self, args, state, control, **kwargs) -> None:
        if state.global_step == OUTAGE[0]:
            self.service.kill()
        if state.global_step == OUTAGE[-1] + 1:
            self.service.start()


def recorded(reward: RewardFunction, told: list[Rewards]) -> Callable[..., Rewards]:
    """The function, which also keeps what it answered in each step."""

    def called(*args, **columns) -> Rewards:
        told.append(reward(*args, **columns))
        return told[-1]

    called.__name__ = reward.__name__
    return called


def train(
    reward: Callable[..., Rewards], told: list[Rewards], folder: Path, *callbacks: TrainerCallback
) -> None:
    """Trains for `STEPS` steps, and compares the log of each with what the function answered."""
    # More threads than free cores wait for each other at every operation.
    torch.set_num_threads(1)
    shown = r"1 plus 1 is \boxed{2}. 2 plus 2 is \boxed{4}. 3 plus 3 is \boxed{6}. "
    rows = [{"prompt": f"{shown}{n} plus {n} is", "answer": str(2 * n)} for n in range(4, 9)]
    trainer = GRPOTrainer(
        model=os.environ["RAPID_CLIENTS_MODEL"],
        reward_funcs=reward,
        args=GRPOConfig(
            output_dir=str(folder),
            max_steps=STEPS,
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=12,
            learning_rate=1e-6,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            seed=1,
        ),
        train_dataset=Dataset.from_list(rows),
        callbacks=list(callbacks),
    )
    trainer.train()
    assert len(told) == STEPS
    logs = [log for log in trainer.state.log_history if "rewards/rapid_verifier/mean" in log]
    assert len(logs) == STEPS
    for rewards, log in zip(told, logs, strict=True):
        given = [value for value in rewards if value is not None]
        assert log["rapid_verifier/unavailable"] == 1 - len(given) / len(rewards)
        # Without a reward there is no gradient.
        assert given or log["grad_norm"] == 0.0
        mean = log["rewards/rapid_verifier/mean"]
        assert mean == (pytest.approx(sum(given) / len(given)) if given else None)


def test_training_goes_on_through_an_outage_without_its_rewards(tmp_path: Path) -> None:
    told: list[Rewards] = []
    with Service() as service:
        reward = reward_func(service.url, service.token, column="answer", patience_s=0.5)
        train(recorded(reward, told), told, tmp_path, Outage(service))
    for step, rewards in enumerate(told):
        expected = {None} if step in OUTAGE else {0.0, 1.0}
        assert set(rewards) <= expected, step


def test_under_overload_a_completion_has_the_right_reward_or_none(tmp_path: Path) -> None:
    """The model writes no programs, so others are judged instead of what it writes."""
    told: list[Rewards] = []
    with overloaded() as service:
        reward = reward_func(service.url, service.token, column="task", patience_s=0.5)

        def of_programs(prompts, completions, **columns) -> Rewards:
            first = sum(map(len, told))
            programs = [completion(first + place) for place in range(len(completions))]
            truths = [TRUTH] * len(completions)
            with load(service):
                told.append(
                    reward(prompts, programs, task=truths, log_metric=columns["log_metric"])
                )
            return told[-1]

        of_programs.__name__ = reward.__name__
        train(of_programs, told, tmp_path)
    rewards = dict(enumerate(value for step in told for value in step))
    given = {number: value for number, value in rewards.items() if value is not None}
    assert 0 < len(given) < len(rewards), f"{len(given)} of {len(rewards)} rewards were given"
    assert given == {number: right(number) for number in given}
