"""One request to some ranks, under way or ended."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, TypeVar

from lycaon.cluster._errors import CONSEQUENCES, RankError, RankFailure
from lycaon.cluster._wire import Fields, unpack

_T = TypeVar("_T")

GRACE = 1.0
"""Seconds for which the others may go on by themselves when a rank has failed."""


class Call(Generic[_T]):
    """A function that runs on ranks in the background.

    ``result()`` waits for it; so does ``await``. Results are in the order of ``ranks``.
    """

    def __init__(
        self,
        number: int,
        ranks: Sequence[int],
        size: int,
        finish: Callable[[Call[Any]], None],
        give_up: Callable[[list[int]], None],
        interrupt: Callable[[Call[Any]], None],
    ) -> None:
        self.number = number
        self.ranks = tuple(ranks)
        self.began = time.monotonic()
        self.context = contextvars.copy_context()
        self.status: dict[int, Fields] = {}
        self._size = size
        self._finish, self._give_up, self._interrupt = finish, give_up, interrupt
        self._results: dict[int, Any] = {}
        self._failures: dict[int, RankFailure] = {}
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._future: concurrent.futures.Future[list[_T]] = concurrent.futures.Future()
        self._future.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> list[_T]:
        """The results, in the order of ``ranks``. Raises ``RankError`` if a rank failed."""
        return self._future.result(timeout)

    def done(self) -> bool:
        return self._future.done()

    def interrupt(self) -> None:
        """Raises ``KeyboardInterrupt`` on the ranks that still run it."""
        self._interrupt(self)

    def __await__(self) -> Generator[Any, None, list[_T]]:
        return asyncio.wrap_future(self._future).__await__()

    def __repr__(self) -> str:
        state = f"{len(self.ranks) - len(self.pending)} of {len(self.ranks)} ranks have ended"
        return f"<lycaon.cluster.Call {self.number}: {state}>"

    @property
    def pending(self) -> list[int]:
        """The ranks that have not answered yet."""
        with self._lock:
            return [r for r in self.ranks if r not in self._results and r not in self._failures]

    @property
    def failed(self) -> list[int]:
        with self._lock:
            return list(self._failures)

    # --- for the cluster -----------------------------------------------------------------------

    def settle(self, rank: int, reply: Fields) -> None:
        """A rank has answered."""
        if "error" in reply:
            self.fail(rank, failure_of(rank, reply))
            return
        try:
            result = unpack(reply) if "payload" in reply else reply.get("value")
        except Exception as error:
            text = f"its result cannot be read here: {type(error).__name__}: {error}"
            now = time.monotonic()
            self.fail(rank, RankFailure(rank, type(error).__name__, text, "", error, False, now))
            return
        with self._lock:
            self._results[rank] = result
        self._end_if_complete()

    def end_of_rank(self, rank: int, how: str) -> None:
        self.fail(rank, RankFailure(rank, "exit", how, "", None, False, time.monotonic()))

    def fail(self, rank: int, failure: RankFailure) -> None:
        with self._lock:
            if rank in self._results or rank in self._failures:
                return
            self._failures[rank] = failure
            first = len(self._failures) == 1
        if first and self.pending:
            self._timer = threading.Timer(GRACE, self._release)
            self._timer.daemon = True
            self._timer.start()
        self._end_if_complete()

    def _release(self) -> None:
        """The others may be waiting for a rank that has failed; they shall not wait for long."""
        if self.pending:
            self._give_up(self.failed)

    def _end_if_complete(self) -> None:
        if self.pending:
            return
        with self._lock:
            if self._future.done():
                return
            if self._timer is not None:
                self._timer.cancel()
        self._finish(self)
        try:
            if self._failures:
                self._future.set_exception(RankError(self._failures, self._size))
            else:
                self._future.set_result([self._results[rank] for rank in self.ranks])
        except concurrent.futures.InvalidStateError:
            pass  # two ranks answered at the same moment


def failure_of(rank: int, reply: Fields) -> RankFailure:
    error = reply["error"]
    exception = None
    if reply.get("exception") is not None:
        try:
            exception = unpack(reply["exception"])
        except Exception:
            exception = None  # its class may exist on the rank alone
    shown = reply.get("shown")
    return RankFailure(
        rank,
        error["name"],
        error["message"],
        error["traceback"],
        exception,
        error["kind"] in CONSEQUENCES or error["interrupted"],
        error["at"],
        tuple(shown) if shown else None,
    )
