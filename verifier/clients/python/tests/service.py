"""Starts and kills the real service, as a user's machine does."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import httpx

TOKEN = "a token of the tests"
READY_S = 1800.0
"""The first start on a machine compiles the sandbox's interpreter."""


def binary() -> Path:
    """The built service. `RAPID_VERIFIER_BIN` names another than the repository's."""
    built = Path(__file__).parents[4] / "target" / "release" / "rapid-verifier"
    path = Path(os.environ.get("RAPID_VERIFIER_BIN") or built)
    assert path.is_file(), f"{path} is not built: cargo build --release, or set RAPID_VERIFIER_BIN"
    return path


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Service:
    """A running service, at an address that it keeps when it restarts.

    It has no cache on disk, unless `disk_cache`: then it has one of its own. With `code`, programs
    are judged in the sandbox that the machine's cache folder has. Otherwise the service has a cache
    folder of its own, which is empty.
    """

    def __init__(
        self,
        *settings: str,
        code: bool = False,
        token: str | None = TOKEN,
        disk_cache: bool = False,
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = token
        self._folder = tempfile.TemporaryDirectory()
        self._arguments = [str(binary()), "serve", "--listen", f"127.0.0.1:{self.port}"]
        self._arguments += ["--until-stdin-ends", *settings]
        if disk_cache:
            self._arguments += ["--cache-dir", str(Path(self._folder.name) / "cache")]
        else:
            self._arguments += ["--no-disk-cache"]
        self._environment = {**os.environ, "RAPID_LOG": "warn"}
        self._environment.pop("RAPID_VERIFIER_TOKEN", None)
        if token is not None:
            self._environment["RAPID_VERIFIER_TOKEN"] = token
        if code:
            self._arguments += ["--require", "code"]
        else:
            self._arguments += ["--set", "code.sandbox=none"]
            self._environment["RAPID_HOME"] = self._folder.name
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Starts it, and waits until it is ready, or a grader that it requires cannot judge."""
        with open(Path(self._folder.name) / "log", "ab") as log:
            self._process = subprocess.Popen(
                self._arguments,
                env=self._environment,
                # It ends with the tests, however they end.
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        since = time.monotonic()
        while True:
            assert self._process.poll() is None, f"it ended:\n{self.log()}"
            assert time.monotonic() - since < READY_S, f"it is not ready:\n{self.log()}"
            try:
                answer = self._get("readyz")
                if answer.status_code == 200:
                    return
                for grader in answer.json()["graders"]:
                    needed = grader["required"] and grader["state"] == "unavailable"
                    assert not needed, f"{grader['name']}: {grader['reason']}"
            except httpx.TransportError:
                pass
            time.sleep(0.02)

    def kill(self) -> None:
        """`kill -9`."""
        if self._process is not None:
            process, self._process = self._process, None
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert process.stdin is not None
            process.stdin.close()

    @contextmanager
    def outage(self, seconds: float = 2.0) -> Iterator[None]:
        """Kills it, and starts it again after this time, while the block goes on."""
        self.kill()
        starting = threading.Timer(seconds, self.start)
        starting.start()
        try:
            yield
        finally:
            starting.join()

    def log(self) -> str:
        return (Path(self._folder.name) / "log").read_text()

    def requests(self, status: int = 200) -> int:
        """How many requests to judge it has answered with this status, since its start."""
        return self._count(rf'requests_total\{{route="/v1/verify",status="{status}"\}}')

    def judged(self) -> int:
        """How many items it has judged since its start."""
        return self._count(r"judgements_total\{[^}]*\}")

    def cached(self) -> int:
        """How many of these had their verdict in the cache."""
        return self._count(r'judgements_total\{[^}]*cached="true"[^}]*\}')

    def told(self, outcome: str) -> int:
        """How many items the clients of the routes under `/compat` were told this about."""
        return self._count(rf'client_items_total\{{[^}}]*outcome="{outcome}"\}}')

    def _count(self, metric: str) -> int:
        text = self._get("metrics").text
        found = re.findall(rf"^rapid_verifier_{metric} (\d+)$", text, re.MULTILINE)
        return sum(map(int, found))

    def _get(self, path: str) -> httpx.Response:
        # To load certificates would take longer than the request.
        return httpx.get(f"{self.url}/{path}", verify=False)

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._folder.cleanup()
