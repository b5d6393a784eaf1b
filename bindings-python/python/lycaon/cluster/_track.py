"""How far a loop on a rank has come, for the progress that the notebook shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

_T = TypeVar("_T")

_now: tuple[str, int, int | None] | None = None


def track(over: Iterable[_T], label: str = "") -> Iterator[_T]:
    """Iterates, and tells the notebook that waits for this rank how far it has come.

    ``for batch in lycaon.cluster.track(batches, "training"): …``. Elsewhere it only iterates.
    """
    global _now
    total = len(over) if isinstance(over, Sized) else None
    for done, item in enumerate(over):
        _now = (label, done, total)
        yield item
    _now = None


def current() -> tuple[str, int, int | None] | None:
    return _now


def clear() -> None:
    global _now
    _now = None
