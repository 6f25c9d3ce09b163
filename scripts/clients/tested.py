"""A plugin of pytest that records what was tested, for `docs/clients-tested.md`.

A module names the package that it tries in `PACKAGE`, and the name of a test says what holds. Each
test adds a row to the file that `RAPID_CLIENTS_TESTED` names.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from importlib.metadata import version

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    path = os.environ.get("RAPID_CLIENTS_TESTED")
    package = getattr(item.module, "PACKAGE", None)
    if path and package and (report.when == "call" or report.outcome != "passed"):
        name = item.originalname.removeprefix("test_").replace("_", " ")
        with open(path, "a") as file:
            outcome = "" if report.outcome == "passed" else f" ({report.outcome})"
            file.write(f"| `{package}` {version(package)} | {name}{outcome}\n")
    return report
