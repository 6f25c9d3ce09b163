"""`kimina-client` itself. Without a Lean it gets an error for each snippet, and never a response."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
import typing_extensions

from service import Service

# On Python 3.11 the package takes `TypedDict` from `typing`, and pydantic refuses that one before
# 3.12, so that the package could not be imported.
if sys.version_info < (3, 12):
    typing.TypedDict = typing_extensions.TypedDict

from kimina_client import AsyncKiminaClient, KiminaClient, Snippet, SnippetStatus  # noqa: E402

PACKAGE = "kimina-client"
LEAN = os.environ.get("RAPID_TEST_LEAN")


def kimina(service: Service, token: str | None = None) -> KiminaClient:
    return KiminaClient(
        api_url=f"{service.url}/compat/kimina", api_key=token or service.token, n_retries=1
    )


@pytest.fixture(scope="module")
def without_lean() -> Iterator[Service]:
    with Service() as started:
        yield started


def test_without_lean_no_snippet_has_a_response(without_lean: Service) -> None:
    client = kimina(without_lean)
    answer = client.check(["#check Nat", "example : 1 = 1 := rfl"], show_progress=False)
    assert [result.response for result in answer.results] == [None, None]
    for result in answer.results:
        assert result.analyze().status == SnippetStatus.server_error
    with pytest.raises(RuntimeError):
        client.health()


def test_a_wrong_token_gives_an_error(without_lean: Service) -> None:
    client = kimina(without_lean, token="wrong")
    answer = client.check("#check Nat", show_progress=False)
    assert answer.results[0].response is None


# What the snippets need of `Init`, all of which takes this Lean in WebAssembly three times as long.
HEADER = "prelude\nimport Init.Core\nimport Init.Tactics"


@pytest.mark.skipif(LEAN is None, reason="RAPID_TEST_LEAN does not name a real Lean, or RAPID_TEST_LONG is not 1")
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="there is no bubblewrap for the jail")
def test_a_real_lean_answers_both_clients() -> None:
    folder = Path(LEAN or "")
    settings = [
        f"lean.command=['{folder}/node', '{folder}/lean.js', '--json']",
        f"lean.dir={folder}",
        "lean.env={ LEAN_PATH = 'lib' }",
        f'lean.headers=["""{HEADER}"""]',
        "lean.axioms=named",
        "lean.start_seconds=1800",
    ]
    arguments = [part for setting in settings for part in ("--set", setting)]
    with Service(*arguments, "--require", "lean") as service:
        client = kimina(service)
        assert client.health() == {"status": "ok"}
        snippets = [
            Snippet(id=name, code=f"{HEADER}\n{text}")
            for name, text in [
                ("wrong", "example : 1 = 2 := rfl"),
                ("sorry", "theorem t : 1 = 2 := sorry"),
                ("valid", "theorem t : 1 + 1 = 2 := rfl"),
            ]
        ]
        expected = {
            "wrong": SnippetStatus.lean_error,
            "sorry": SnippetStatus.sorry,
            "valid": SnippetStatus.valid,
        }

        async def check() -> dict[str, SnippetStatus]:
            async_client = AsyncKiminaClient(
                api_url=f"{service.url}/compat/kimina", api_key=service.token
            )
            answer = await async_client.check(snippets, show_progress=False)
            await async_client.close()
            return {result.id: result.analyze().status for result in answer.results}

        assert asyncio.run(check()) == expected
        # From the cache, with the synchronous client.
        answer = client.check(snippets, show_progress=False)
        assert {result.id: result.analyze().status for result in answer.results} == expected

        service.kill()
        answer = client.check("#check Nat", show_progress=False)
        assert answer.results[0].response is None
