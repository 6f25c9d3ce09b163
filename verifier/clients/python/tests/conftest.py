"""The service that most tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rapid_verifier import Client, MicroBatcher, micro_batch
from service import Service


@pytest.fixture(autouse=True)
def _no_service_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAPID_VERIFIER", raising=False)
    monkeypatch.delenv("RAPID_VERIFIER_TOKEN", raising=False)


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    """A service with a token, which judges mathematics and programs. It is never killed."""
    with Service(code=True) as started:
        yield started


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.url, service.token, patience_s=60) as opened:
        yield opened


@pytest.fixture
def environment(service: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """The service, which the environment names."""
    assert service.token is not None
    monkeypatch.setenv("RAPID_VERIFIER", service.url)
    monkeypatch.setenv("RAPID_VERIFIER_TOKEN", service.token)
    return service


@pytest.fixture
def long_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls wait so long for others that a busy machine makes no more requests of them."""
    defaults = MicroBatcher.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "window_s", 1.0)
    monkeypatch.setattr(micro_batch, "_shared", {})
