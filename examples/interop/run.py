"""Runs one group whose ranks are programs in Rust, C, C++, Python and Swift, in every order that puts
another language at rank 0, and checks that all of them print the same bits, and the right ones."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from interop import checksum, values  # noqa: E402


def compiled(compiler: str, standard: str, source: str, folder: Path, library: Path) -> list[str]:
    """Builds a C or C++ program against the shared library."""
    program = folder / source.replace(".", "_")
    for name in ("liblycaon.so", "liblycaon.so.1"):
        if not (folder / name).exists():
            (folder / name).symlink_to(library)
    header = HERE.parents[1] / "bindings-c" / "include"
    flags = [standard, "-O2", "-Wall", "-Wextra", "-Werror", "-I", str(header)]
    link = ["-L", str(folder), "-llycaon", f"-Wl,-rpath,{folder}", "-o", str(program)]
    subprocess.run([compiler, *flags, str(HERE / source), *link], check=True)
    return [str(program)]


def expected(size: int) -> str:
    """What every rank must print, computed in this process."""

    def in_order(ranks: list[int], count: int) -> np.ndarray:
        total = values(ranks[0], count)
        for rank in ranks[1:]:
            total = total + values(rank, count)
        return total

    thirds = [values(rank, 3).astype(np.float64) / 3 for rank in range(size)]
    shifted = [values(rank, 1000) + values((rank - 1) % size, 1000) for rank in range(size)]
    parts = []
    for rank in range(size):
        members = [other for other in reversed(range(size)) if other % 2 == rank % 2]
        place = np.array([members.index(rank), len(members)], np.float32)
        parts += [in_order(members, 100), place]
    sums = {
        "all_reduce": in_order(list(range(size)), 5000),
        "all_gather": np.concatenate(thirds),
        "ring": np.concatenate([*shifted, in_order(list(range(size)), 4)]),
        "split": np.concatenate(parts),
    }
    return " ".join(f"{name} {checksum(data)}" for name, data in sums.items())


def launch(lycaon: Path, folder: Path, links: str, commands: list[list[str]]) -> list[str]:
    """Starts one rank of each command. The launcher ends them all when the time is over."""
    script = folder / "rank"
    cases = [f"{rank}) exec {shlex.join(command)} ;;" for rank, command in enumerate(commands)]
    script.write_text("\n".join(["#!/bin/sh", "case $LYCAON_RANK in", *cases, "esac", ""]))
    script.chmod(0o755)
    options = ["-n", str(len(commands)), "--links", links, "--no-tag-output", "--timeout", "120"]
    answer = subprocess.run(
        [str(lycaon), "launch", *options, "--", str(script)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        # Direct sums are in rank order; this says so for every algorithm.
        env={**os.environ, "LYCAON_RANK_ORDER": "1"},
    )
    if answer.returncode != 0:
        raise SystemExit(f"interop: code {answer.returncode}\n{answer.stdout}{answer.stderr}")
    return sorted(answer.stdout.splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lycaon", type=Path, required=True)
    parser.add_argument("--rust", type=Path, required=True, help="the built Rust program")
    parser.add_argument("--swift", nargs="+", required=True, help="the command of the Swift program")
    arguments = parser.parse_args()
    lycaon = arguments.lycaon.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = lycaon.parent / "liblycaon_c.so"
        programs = {
            "Rust": [str(arguments.rust.resolve())],
            "C": compiled("cc", "-std=c11", "interop.c", folder, library),
            "C++": compiled("c++", "-std=c++17", "interop.cpp", folder, library),
            "Python": [sys.executable, str(HERE / "interop.py")],
            "Swift": arguments.swift,
        }
        languages = list(programs)
        bits = expected(len(languages))
        for first in range(len(languages)):
            order = languages[first:] + languages[:first]
            links = "shm" if first % 2 == 0 else "tcp"
            began = time.monotonic()
            printed = launch(lycaon, folder, links, [programs[language] for language in order])
            due = sorted(f"rank {rank} {name} {bits}" for rank, name in enumerate(order))
            if printed != due:
                raise SystemExit(
                    f"interop over {links}: the ranks printed\n  "
                    + "\n  ".join(printed)
                    + "\ninstead of\n  "
                    + "\n  ".join(due)
                )
            took = time.monotonic() - began
            print(f"  ok  interop  {links}  {', '.join(order):38}  {took:5.1f} s", flush=True)
    print(f"  all five: {bits}")


if __name__ == "__main__":
    main()
