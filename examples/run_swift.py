"""Runs the examples in Swift with 2 and with 3 ranks and checks what they print."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from run_all import EXAMPLES, launch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lycaon", type=Path, default=Path("target/release/lycaon"))
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--enter", type=Path, required=True, help="runs a program where Swift is")
    arguments = parser.parse_args()
    for name, expected in [*EXAMPLES.items(), ("kmeans", None)]:
        for size in (2, 3):
            began = time.monotonic()
            printed = sorted(launch(arguments.lycaon, size, [str(arguments.enter), str(arguments.programs / name)]))
            if expected is None:
                last = f"60000 points in 8 clusters on {size} ranks, spread "
                good = any(
                    line.startswith(last) and line.endswith(": the same as alone") for line in printed
                ) and any(line.startswith("round 2: ") for line in printed)
            else:
                good = printed == sorted(expected(size))
            if not good:
                raise SystemExit(f"{name} in Swift with {size} ranks printed\n  " + "\n  ".join(printed))
            took = time.monotonic() - began
            print(f"  ok  {name:14} Swift   {size} ranks  {took:5.1f} s", flush=True)


if __name__ == "__main__":
    main()
