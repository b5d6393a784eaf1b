"""What the ranks print and plot, as the notebook shows it."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from lycaon.cluster._wire import Fields

COLOURS = (34, 32, 35, 36, 33, 31)


def shell() -> Any:
    """IPython, if this process runs in it."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()


def in_notebook() -> bool:
    return hasattr(shell(), "kernel")


class Screen:
    """Lines are whole, and begin with their rank."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._unfinished: dict[tuple[int, str], bytes] = {}

    def text(self, rank: int, stream: str, text: bytes) -> None:
        with self._lock:
            whole, newline, rest = (
                self._unfinished.pop((rank, stream), b"") + text
            ).rpartition(b"\n")
            if newline:
                self._write(rank, stream, whole)
            if rest:
                self._unfinished[rank, stream] = rest

    def finish(self, rank: int) -> None:
        """Shows a last line without an end."""
        with self._lock:
            for stream in ("stdout", "stderr"):
                rest = self._unfinished.pop((rank, stream), b"")
                if rest:
                    self._write(rank, stream, rest)

    def display(self, rank: int, fields: Fields) -> None:
        """A result or a plot. Without IPython, its text."""
        with self._lock:
            self.finish(rank)
            data, here = fields["data"], shell()
            if here is None or set(data) == {"text/plain"}:
                self._write(rank, "stdout", str(data.get("text/plain", "")).encode())
                return
            how: dict[str, Any] = {}
            if fields.get("transient"):
                # The same name on two ranks means two things.
                name = f"lycaon-{rank}-{fields['transient'].get('display_id')}"
                how = {"transient": {"display_id": name}, "update": fields.get("update", False)}
            if not how.get("update"):
                self._write(rank, "stdout", b"")
            here.display_pub.publish(data, fields.get("metadata") or {}, **how)

    def say(self, text: str) -> None:
        """A remark of the cluster itself."""
        print(f"lycaon: {text}", file=sys.stderr, flush=True)

    def _write(self, rank: int, stream: str, lines: bytes) -> None:
        to = sys.stdout if stream == "stdout" else sys.stderr
        tag = f"[{rank}]"
        if coloured(to):
            tag = f"\x1b[{COLOURS[rank % len(COLOURS)]}m{tag}\x1b[0m"
        try:
            for line in lines.decode(errors="replace").split("\n"):
                # Of a line that was written over, what one would see in the end.
                line = line.rstrip("\r").rpartition("\r")[2]
                to.write(f"{tag} {line}\n" if line else f"{tag}\n")
            to.flush()
        except (OSError, ValueError):
            pass  # nobody reads it any more, and the ranks go on


def coloured(stream: Any) -> bool:
    if "NO_COLOR" in os.environ:
        return False
    return in_notebook() or bool(getattr(stream, "isatty", lambda: False)())
