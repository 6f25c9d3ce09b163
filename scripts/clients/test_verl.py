"""verl's own reward managers call the reward functions."""

import asyncio
import functools
import inspect
import os

import numpy
import pytest
import torch
from omegaconf import OmegaConf
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


def batch(tokenizer: PreTrainedTokenizerBase) -> DataProto:
    """A batch with `TEXTS`, as verl's rollout makes it."""
    tokenizer.padding_side = "left"
    prompts = tokenizer(["Half of one?"] * len(TEXTS), return_tensors="pt")
    tokenizer.padding_side = "right"
    responses = tokenizer(TEXTS, return_tensors="pt", padding=True)
    masks = torch.cat([prompts["attention_mask"], responses["attention_mask"]], dim=1)
    many = len(TEXTS)
    truth = [{"ground_truth": "1/2"} for _ in range(many)]
    return DataProto.from_dict(
        tensors={
            "prompts": prompts["input_ids"],
            "responses": responses["input_ids"],
            "attention_mask": masks,
        },
        non_tensors={
            "data_source": numpy.array(["any"] * many, dtype=object),
            "reward_model": numpy.array(truth, dtype=object),
            "extra_info": numpy.array([{} for _ in range(many)], dtype=object),
        },
    )


def with_worker(manager: type, function: object, tokenizer: PreTrainedTokenizerBase) -> list[float]:
    """The rewards by a manager of the trainer's workers."""
    rewards = manager(tokenizer, 0, compute_score=function)(batch(tokenizer))
    return rewards.sum(dim=1).tolist()


def with_loop(manager: type, function: object, tokenizer: PreTrainedTokenizerBase) -> list[float]:
    """The rewards by a manager of the reward loop, all samples at once."""

    async def run() -> list[float]:
        config = OmegaConf.create({"reward": {"reward_kwargs": {}}})
        managed = manager(config, tokenizer, function)
        data = batch(tokenizer)
        samples = [data[place : place + 1] for place in range(len(TEXTS))]
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
        assert ask(manager, made, tokenizer) == RIGHT
        service.kill()
        with pytest.raises(Unavailable, match="no reward"):
            ask(manager, made, tokenizer)
        service.start()
        assert ask(manager, made, tokenizer) == RIGHT
