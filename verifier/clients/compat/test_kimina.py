"""`kimina-client` itself. Without a Lean it gets an error for each snippet, and never a response."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import typing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import typing_extensions

from overload import load, overloaded
from service import Service

# On Python 3.11 the package takes `TypedDict` from `typing`, and pydantic refuses that one before
# 3.12, so that the package could not be imported.
if sys.version_info < (3, 12):
    typing.TypedDict = typing_extensions.TypedDict

from kimina_client import (  # noqa: E402
    AsyncKiminaClient,
    KiminaClient,
    ReplResponse,
    Snippet,
    SnippetStatus,
)

PACKAGE = "kimina-client"
LEAN = os.environ.get("RAPID_TEST_LEAN")
PATIENT = 1000
"""Attempts of a client that waits for Lean, with pauses of up to 10 seconds."""


def kimina(service: Service, token: str | None = None, attempts: int = 1) -> KiminaClient:
    return KiminaClient(
        api_url=f"{service.url}/compat/kimina",
        api_key=token or service.token,
        n_retries=attempts,
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


def test_under_overload_without_lean_no_snippet_has_a_response() -> None:
    def ask(number: int) -> None:
        answer = kimina(service).check(f"#check {number}", show_progress=False)
        assert answer.results[0].response is None
        assert answer.results[0].analyze().status == SnippetStatus.server_error

    with overloaded() as service, load(service), ThreadPoolExecutor(12) as pool:
        list(pool.map(ask, range(12)))


# The parts of `Init` that the snippets need. All of it takes this Lean in WebAssembly three times as long.
HEADER = "prelude\nimport Init.Core\nimport Init.Tactics"


@pytest.fixture(scope="module")
def real_lean() -> Iterator[Service]:
    """A service that takes minutes to start, and minutes for a snippet. It is overloaded soon."""
    if LEAN is None:
        pytest.skip("RAPID_TEST_LEAN does not name a real Lean, or RAPID_TEST_LONG is not 1")
    if shutil.which("bwrap") is None:
        pytest.skip("there is no bubblewrap for the jail")
    folder = Path(LEAN)
    settings = [
        f"lean.command=['{folder}/node', '{folder}/lean.js', '--json']",
        f"lean.dir={folder}",
        "lean.env={ LEAN_PATH = 'lib' }",
        f'lean.headers=["""{HEADER}"""]',
        "lean.axioms=named",
        "lean.start_seconds=1800",
    ]
    arguments = [part for setting in settings for part in ("--set", setting)]
    with overloaded(*arguments, "--require", "lean") as service:
        yield service


def snippets(number: int) -> list[Snippet]:
    """A wrong, an unfinished and a valid snippet. Those of each number are others."""
    return [
        Snippet(id=name, code=f"{HEADER}\ntheorem t{number} : {number} + 1 = {text}")
        for name, text in [
            ("lean_error", f"{number} := rfl"),
            ("sorry", f"{number} := sorry"),
            ("valid", f"{number + 1} := rfl"),
        ]
    ]


def assert_right(results: list[ReplResponse]) -> None:
    """The id of each snippet is its status."""
    assert {result.id for result in results} == {"lean_error", "sorry", "valid"}
    for result in results:
        assert result.analyze().status == SnippetStatus(result.id)


def test_a_real_lean_answers_both_clients(real_lean: Service) -> None:
    # The service refuses what takes longer than a second, and has its answer later. A request has
    # one snippet.
    client = kimina(real_lean, attempts=PATIENT)
    assert client.health() == {"status": "ok"}

    async def check() -> list[ReplResponse]:
        async_client = AsyncKiminaClient(
            api_url=client.api_url, api_key=client.api_key, n_retries=PATIENT
        )
        answer = await async_client.check(snippets(1), batch_size=1, show_progress=False)
        await async_client.close()
        return answer.results

    assert_right(asyncio.run(check()))
    # From the cache, with the synchronous client.
    assert_right(client.check(snippets(1), batch_size=1, show_progress=False).results)


def test_under_overload_a_real_leans_answer_is_right_or_an_error(real_lean: Service) -> None:
    known = snippets(1)
    kimina(real_lean, attempts=PATIENT).check(known, batch_size=1, show_progress=False)
    before = real_lean.told("withheld")

    def ask(snippet: Snippet) -> ReplResponse:
        [result] = kimina(real_lean).check(snippet, show_progress=False).results
        return result

    with load(real_lean), ThreadPoolExecutor(12) as pool:
        results = list(pool.map(ask, [*known, *snippets(2), *snippets(3)]))
    assert_right(results[:3])
    refused = [result for result in results if result.response is None]
    assert refused, "nothing was refused"
    assert real_lean.told("withheld") - before == len(refused)
    for result in results:
        expected = "server_error" if result.response is None else result.id
        assert result.analyze().status == SnippetStatus(expected)
    answer = kimina(real_lean, attempts=PATIENT).check(
        snippets(2), batch_size=1, show_progress=False
    )
    assert_right(answer.results)


def test_a_killed_service_gives_no_response(real_lean: Service) -> None:
    """The last one that needs the service."""
    real_lean.kill()
    answer = kimina(real_lean).check(snippets(1), batch_size=1, show_progress=False)
    assert [result.response for result in answer.results] == [None] * 3
