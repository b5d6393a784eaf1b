"""What a long call shows while the notebook waits for it."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lycaon.cluster._show import in_notebook

if TYPE_CHECKING:
    from lycaon.cluster._call import Call

PATIENCE = 2.0
"""Seconds before a call counts as long."""
EVERY = 0.5
WIDTH = 20


class Bar:
    """Appears when a call takes long and goes when it ends. On a terminal, it is one line."""

    def __init__(self, call: Call[Any], ask: Callable[[Call[Any]], None]) -> None:
        self._call = call
        self._ask = ask
        self._handle: Any = None
        self._shown = False

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)
        elif self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def pause(self) -> float:
        age = time.monotonic() - self._call.began
        return EVERY if age >= PATIENCE else PATIENCE - age

    def update(self) -> None:
        notebook = in_notebook()
        if not notebook and not sys.stderr.isatty():
            return
        lines = self.lines()
        self._ask(self._call)  # for the next time
        self._shown = True
        if not notebook:
            sys.stderr.write("\r\x1b[K" + "  ".join(lines)[:118])
            sys.stderr.flush()
            return
        text = {"text/plain": "\n".join(lines)}
        if self._handle is None:
            display: Any = importlib.import_module("IPython.display")
            self._handle = display.DisplayHandle()
            self._handle.display(text, raw=True)
        else:
            self._handle.update(text, raw=True)

    def lines(self) -> list[str]:
        call = self._call
        pending = call.pending
        ended = len(call.ranks) - len(pending)
        took = time.monotonic() - call.began
        lines = [f"{bar(ended, len(call.ranks))} {ended} of {len(call.ranks)} ranks, {took:.0f} s"]
        for rank in pending:
            status = call.status.get(rank)
            if status is None:
                continue
            line = f"[{rank}]"
            if status["track"] is not None:
                label, done, total = status["track"]
                line += f" {bar(done, total)}" if total else ""
                line += f" {label + ' ' if label else ''}{done}{f' of {total}' if total else ''}"
            lines.append(f"{line} · {status['operations']} operations")
        return lines


def bar(done: int, total: int) -> str:
    full = WIDTH * done // max(total, 1)
    return "█" * full + "░" * (WIDTH - full)


