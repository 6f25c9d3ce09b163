"""OpenRLHF's own executor of single turns asks for rewards. Only the engine is ours."""

import asyncio
import os
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from openrlhf.utils.agent import SingleTurnAgentExecutor
from overload import TRUTH, completion, overloaded, right_or_missing
from service import Service
from transformers import AutoTokenizer, PreTrainedTokenizerBase

PACKAGE = "openrlhf"


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(os.environ["RAPID_CLIENTS_MODEL"])


class Engine:
    """Generates one text, with the token that ends a message."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, text: str) -> None:
        self.token_ids = tokenizer(text + "<|im_end|>", add_special_tokens=False)["input_ids"]

    async def generate(self, *_: object, **__: object) -> SimpleNamespace:
        output = SimpleNamespace(token_ids=self.token_ids, finish_reason="stop", logprobs=None)
        return SimpleNamespace(outputs=[output])


async def execute(
    service: Service, tokenizer: PreTrainedTokenizerBase, texts: list[str], label: str = "1/2"
) -> list[dict[str, Any]]:
    """What OpenRLHF has about each text, with the token in the address."""
    address = service.url.removeprefix("http://")
    token = (service.token or "").replace(" ", "%20")
    url = f"http://anyone:{token}@{address}/compat/openrlhf/get_reward"
    executor = SingleTurnAgentExecutor(url)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Half of one?"}], tokenize=False, add_generation_prompt=True
    )
    sampling = SimpleNamespace(max_tokens=64, logprobs=None)
    runs = [
        executor.execute(prompt, label, sampling, 512, tokenizer, Engine(tokenizer, text))
        for text in texts
    ]
    return list(await asyncio.gather(*runs))


TEXTS = [rf"It is \boxed{{{number}/4}}." for number in range(6)]
RIGHT = [float(number == 2) for number in range(6)]


def rewards(outputs: list[dict[str, Any]]) -> list[float | None]:
    """OpenRLHF keeps the list of a request's one reward, as it gets it."""
    return [None if output["reward"] is None else sum(output["reward"]) for output in outputs]


def test_completions_get_their_rewards(tokenizer: PreTrainedTokenizerBase) -> None:
    with Service() as service:
        outputs = asyncio.run(execute(service, tokenizer, TEXTS))
    assert rewards(outputs) == RIGHT
    assert [output["scores"] for output in outputs] == [[reward] for reward in RIGHT]


def test_a_service_that_is_killed_and_restarted_meanwhile_gives_the_same_rewards(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    with Service() as service, service.outage():
        assert rewards(asyncio.run(execute(service, tokenizer, TEXTS))) == RIGHT


def test_a_service_that_is_down_gives_no_reward(tokenizer: PreTrainedTokenizerBase) -> None:
    with Service() as service:
        service.kill()
        assert rewards(asyncio.run(execute(service, tokenizer, TEXTS[:2]))) == [None, None]


def test_a_wrong_token_gives_no_reward(tokenizer: PreTrainedTokenizerBase) -> None:
    with Service() as service:
        service.token = "wrong"
        assert rewards(asyncio.run(execute(service, tokenizer, TEXTS[:1]))) == [None]


def test_under_overload_a_reward_is_right_or_missing(tokenizer: PreTrainedTokenizerBase) -> None:
    with overloaded() as service:

        def ask_all(samples: Sequence[int]) -> list[float | None]:
            texts = [completion(number) for number in samples]
            return rewards(asyncio.run(execute(service, tokenizer, texts, TRUTH)))

        right_or_missing(service, ask_all)
        assert service.told("withheld") > 0
