"""The program ``lycaon``, as the wheel brings it."""

from __future__ import annotations

import sys

from lycaon._lycaon import _command


def main() -> int:
    """Runs the program with the arguments of this process and returns its exit code."""
    restart = [sys.executable, "-m", "lycaon"]
    return _command(["lycaon", *sys.argv[1:]], restart)
