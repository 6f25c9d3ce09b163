"""verl's own reward managers call the reward functions."""

import asyncio
import functools
import inspect
import os
from collections.abc import Sequence

import numpy
import pytest
import torch
from omegaconf import OmegaConf
from overload import TRUTH, at_once, completion, overloaded, right_or_missing
from rapid_verifier import Unavailable
from rapid_verifier.verl import compute_score, compute_score_async, compute_scores
from service import Service
from transformers import PreTrainedTokenizerBase
from verl import DataProto
from verl.experimental.reward_loop import reward_manager as loop
from verl.utils import hf_tokenizer
from verl.workers import reward_manager as worker

PACKAGE = "verl"
TEXTS = [rf"It is \boxed{{{number}/4}}." for number in range(6)]
RIGHT = [float(number == 2) for number in range(6)]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return hf_tokenizer(os.environ["RAPID_CLIENTS_MODEL"])


def batch(tokenizer: PreTrainedTokenizerBase, texts: list[str], truth: str) -> DataProto:
    """A batch with these completions, as verl's rollout makes it."""
    tokenizer.padding_side = "left"
    prompts = tokenizer(["Half of one?"] * len(texts), return_tensors="pt")
    tokenizer.padding_side = "right"
    responses = tokenizer(texts, return_tensors="pt", padding=True)
    masks = torch.cat([prompts["attention_mask"], responses["attention_mask"]], dim=1)
    many = len(texts)
    truths = [{"ground_truth": truth} for _ in range(many)]
    return DataProto.from_dict(
        tensors={
            "prompts": prompts["input_ids"],
            "responses": responses["input_ids"],
            "attention_mask": masks,
        },
        non_tensors={
            "data_source": numpy.array(["any"] * many, dtype=object),
            "reward_model": numpy.array(truths, dtype=object),
            "extra_info": numpy.array([{} for _ in range(many)], dtype=object),
        },
    )


def with_worker(
    manager: type, function: object, tokenizer: PreTrainedTokenizerBase, data: DataProto
) -> list[float]:
    """The rewards by a manager of the trainer's workers."""
    rewards = manager(tokenizer, 0, compute_score=function)(data)
    return rewards.sum(dim=1).tolist()


def with_loop(
    manager: type, function: object, tokenizer: PreTrainedTokenizerBase, data: DataProto
) -> list[float]:
    """The rewards by a manager of the reward loop, all samples at once."""

    async def run() -> list[float]:
        config = OmegaConf.create({"reward": {"reward_kwargs": {}}})
        managed = manager(config, tokenizer, function)
        samples = [data[place : place + 1] for place in range(len(data))]
        results = await asyncio.gather(*(managed.run_single(sample) for sample in samples))
        return [result["reward_score"] for result in results]

    return asyncio.run(run())


CASES = [
    pytest.param(with_worker, worker.NaiveRewardManager, compute_score, id="naive"),
    pytest.param(with_worker, worker.DAPORewardManager, compute_score, id="dapo"),
    pytest.param(with_worker, worker.BatchRewardManager, compute_scores, id="batch"),
    pytest.param(with_loop, loop.NaiveRewardManager, compute_score, id="loop-naive"),
    pytest.param(with_loop, loop.NaiveRewardManager, compute_score_async, id="loop-naive-async"),
    pytest.param(with_loop, loop.DAPORewardManager, compute_score_async, id="loop-dapo-async"),
]


def bound(function: object, service: Service) -> object:
    """The function as verl binds `reward_kwargs` to it."""
    settings = {"url": service.url, "token": service.token, "patience_s": 0.5}
    made = functools.partial(function, **settings)
    assert inspect.iscoroutinefunction(made) == inspect.iscoroutinefunction(function)
    return made


@pytest.mark.parametrize(("ask", "manager", "function"), CASES)
def test_naive_dapo_and_batch_managers_give_rewards_and_raise_once_the_service_is_killed(
    ask, manager, function, tokenizer: PreTrainedTokenizerBase
) -> None:
    with Service() as service:
        made = bound(function, service)
        data = batch(tokenizer, TEXTS, "1/2")
        assert ask(manager, made, tokenizer, data) == RIGHT
        service.kill()
        with pytest.raises(Unavailable, match="no reward"):
            ask(manager, made, tokenizer, data)
        service.start()
        assert ask(manager, made, tokenizer, data) == RIGHT


@pytest.mark.parametrize(("ask", "manager", "function"), CASES)
def test_under_overload_naive_dapo_and_batch_managers_give_the_right_reward_or_raise(
    ask, manager, function, tokenizer: PreTrainedTokenizerBase
) -> None:
    with overloaded() as service:
        made = bound(function, service)

        def ask_all(samples: Sequence[int]) -> list[float | None]:
            # The tokenizer is not safe for threads while it pads.
            batches = {n: batch(tokenizer, [completion(n)], TRUTH) for n in samples}

            def ask_one(number: int) -> float | None:
                try:
                    [reward] = ask(manager, made, tokenizer, batches[number])
                except Unavailable:
                    return None
                return reward

            return at_once(ask_one)(samples)

        right_or_missing(service, ask_all)
