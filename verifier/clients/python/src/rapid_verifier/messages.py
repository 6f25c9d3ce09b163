"""The text of prompts and completions, which trainers give as text or as messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rapid_verifier.errors import GroundTruthError


def completion_text(completion: object) -> str:
    """The text to judge: the text itself, or that of the last message of the assistant.

    A message is a mapping, or an object, with `role` and `content`. The content is text, a list of
    parts, or `None`. Only parts with `text` count, and `None` counts as empty. So does an empty
    list of messages, as a rollout without a reply leaves it.

    Raises `GroundTruthError` if there are messages, and none of the assistant.
    """
    if isinstance(completion, str):
        return completion
    messages = _messages(completion)
    if not messages:
        return ""
    for message in reversed(messages):
        if _field(message, "role") == "assistant":
            return _content(message)
    raise GroundTruthError("the completion has no message of the assistant, so there is no text")


def prompt_text(prompt: object) -> str:
    """The prompt's text: the text itself, or those of its messages with blank lines between."""
    if prompt is None:
        return ""
    if isinstance(prompt, str):
        return prompt
    texts = (_content(message) for message in _messages(prompt))
    return "\n\n".join(text for text in texts if text)


def _messages(value: object) -> Sequence[Any]:
    convert = getattr(value, "tolist", None)
    if callable(convert) and hasattr(value, "dtype"):
        value = convert()
    if isinstance(value, Mapping) or hasattr(value, "role"):
        return [value]
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return value
    raise GroundTruthError(
        f"a prompt or a completion is text or messages, not {type(value).__name__}"
    )


def _field(message: object, name: str) -> Any:
    if isinstance(message, Mapping):
        return message.get(name)
    return getattr(message, name, None)


def _content(message: object) -> str:
    content = _field(message, "content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = [_field(part, "text") for part in content]
    return "".join(part for part in parts if isinstance(part, str))
