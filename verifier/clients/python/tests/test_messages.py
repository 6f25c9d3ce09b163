"""The text of prompts and completions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rapid_verifier import GroundTruthError
from rapid_verifier.messages import completion_text, prompt_text


@dataclass
class Message:
    role: str
    content: Any


def test_the_text_of_a_completion_is_its_last_message_of_the_assistant() -> None:
    user = {"role": "user", "content": "Again?"}
    for completion in [
        "7",
        {"role": "assistant", "content": "7"},
        [{"role": "assistant", "content": "7"}],
        [{"role": "assistant", "content": "6"}, user, {"role": "assistant", "content": "7"}],
        [{"role": "assistant", "content": "7"}, {"role": "tool", "content": "8"}],
        [Message("assistant", "7")],
        [Message("assistant", [{"type": "text", "text": "7"}, {"type": "image"}])],
    ]:
        assert completion_text(completion) == "7"
    assert completion_text([]) == ""
    assert completion_text([{"role": "assistant", "content": None}]) == ""
    for wrong in [[user], 7, None, b"7"]:
        with pytest.raises(GroundTruthError):
            completion_text(wrong)


def test_the_text_of_a_prompt_is_that_of_all_its_messages() -> None:
    messages = [{"role": "system", "content": "Be brief."}, Message("user", "1 + 1?")]
    assert prompt_text(messages) == "Be brief.\n\n1 + 1?"
    assert prompt_text("1 + 1?") == "1 + 1?"
    assert prompt_text(None) == ""
