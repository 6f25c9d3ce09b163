"""The token in the URL, as trainers give it to the HTTP libraries that they use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import aiohttp
import httpx
import pytest
import requests

from service import Service

TOKEN = "t/ken with:signs"
ENCODED = "t%2Fken%20with%3Asigns"
BODY = {"prompt": "Half of one?", "response": r"\boxed{0.5}", "label": r"\frac12"}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service(token=TOKEN) as started:
        yield started


def with_httpx(url: str) -> tuple[int, object]:
    answer = httpx.post(url, json=BODY)
    return answer.status_code, answer.json()


def with_requests(url: str) -> tuple[int, object]:
    answer = requests.post(url, json=BODY, timeout=60)
    return answer.status_code, answer.json()


def with_aiohttp(url: str) -> tuple[int, object]:
    async def ask() -> tuple[int, object]:
        async with aiohttp.ClientSession() as session, session.post(url, json=BODY) as answer:
            return answer.status, await answer.json(content_type=None)

    return asyncio.run(ask())


@pytest.mark.parametrize("ask", [with_httpx, with_requests, with_aiohttp])
def test_the_token_is_the_password_of_the_url(service: Service, ask) -> None:
    address = service.url.removeprefix("http://")
    url = "http://{}@" + address + "/compat/slime/rm"
    assert ask(url.format(f"anyone:{ENCODED}")) == (200, 1.0)
    status, problem = ask(url.format("anyone:wrong"))
    assert status == 401
    assert TOKEN not in str(problem)


@pytest.mark.parametrize("ask", [with_httpx, with_requests, with_aiohttp])
def test_the_token_may_be_the_user_name(ask) -> None:
    with Service(token="secret") as service:
        # Without the colon, requests sends nothing.
        url = "http://{}:@" + service.url.removeprefix("http://") + "/compat/slime/rm"
        assert ask(url.format("secret")) == (200, 1.0)
        assert ask(url.format("wrong"))[0] == 401
