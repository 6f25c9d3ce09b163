"""A server that answers as no verifier should."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

Items = list[dict[str, Any]]
Answer = tuple[int, dict[str, str], bytes] | None
"""Status, headers and body; `None` closes the connection."""


def judgement(item: dict[str, Any], **changes: Any) -> dict[str, Any]:
    right = {
        "id": item["id"],
        "reward": 1.0,
        "verdict": "correct",
        "detail": {},
        "retryable": False,
        "key": "",
        "cached": False,
        "deterministic": True,
        "elapsed_ms": 0.1,
    }
    return {**right, **changes}


def results(items: Items, **changes: Any) -> Answer:
    body = json.dumps({"results": [judgement(item, **changes) for item in items]})
    return 200, {}, body.encode()


class Stub:
    """Answers requests to judge with `answer(number of the request, items)`."""

    def __init__(self, answer: Callable[[int, Items], Answer]) -> None:
        self.requests: list[Items] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                stub.times.append(time.monotonic())
                stub.requests.append(json.loads(body)["items"])
                stub.headers.append({k.lower(): v for k, v in self.headers.items()})
                answered = answer(len(stub.requests) - 1, stub.requests[-1])
                if answered is None:
                    return
                status, headers, text = answered
                self.send_response(status)
                for name, value in {"content-length": str(len(text)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Stub:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
