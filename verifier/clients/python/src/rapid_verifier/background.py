"""One event loop on a thread of its own, for callers without a loop.

All blocking calls of a process share it, so that they share connections and batches. A process that
was forked starts its own, since threads are not copied.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_process: int | None = None


def submit(coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    """Starts a coroutine on the loop."""
    return asyncio.run_coroutine_threadsafe(coroutine, _started())


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on the loop, and blocks until it ends. An interruption cancels it."""
    future = submit(coroutine)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _started() -> asyncio.AbstractEventLoop:
    global _lock, _loop, _process
    if _process != os.getpid() and _process is not None:
        # The lock may have been held when the process was forked.
        _lock, _loop, _process = threading.Lock(), None, None
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            _process = os.getpid()
            # A daemon, so that a program ends while a request waits.
            thread = threading.Thread(target=_loop.run_forever, name="rapid-verifier", daemon=True)
            thread.start()
        return _loop
