"""Starts ranks as processes and takes care that none is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

PREAMBLE = """
import os, signal, sys, threading, time
import numpy as np
import lycaon
"""


@dataclass
class Ended:
    code: int
    out: str
    err: str


class Job:
    """Processes that run one program, each as a rank of one group."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ranks: list[subprocess.Popen[str]] = []
        self.began = 0.0

    def start(
        self,
        size: int,
        program: str | Path,
        *,
        links: str | None = None,
        env: dict[str, str] | None = None,
        per_rank: list[dict[str, str]] | None = None,
    ) -> Job:
        assert not self.ranks, "one start per job"
        if isinstance(program, str):
            path = self.folder / "program.py"
            path.write_text(PREAMBLE + textwrap.dedent(program))
        else:
            path = program
        self.began = time.monotonic()
        for rank in range(size):
            variables = clean_environment()
            if per_rank is None:
                variables |= {
                    "LYCAON_RANK": str(rank),
                    "LYCAON_SIZE": str(size),
                    "LYCAON_RENDEZVOUS": f"file:{self.folder / 'rendezvous'}",
                    "LYCAON_START_TIMEOUT": "30s",
                }
            else:
                variables |= per_rank[rank]
            if links:
                variables["LYCAON_LINKS"] = links
            variables |= env or {}
            self.ranks.append(
                subprocess.Popen(
                    [sys.executable, str(path)],
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        return self

    def wait_for_line(self, rank: int, text: str, timeout: float = 30) -> None:
        """Waits until a rank has printed a line. What it prints later is in ``end``."""
        stdout = self.ranks[rank].stdout
        assert stdout is not None
        os.set_blocking(stdout.fileno(), False)
        seen, until = "", time.monotonic() + timeout
        while text not in seen:
            assert time.monotonic() < until, f"rank {rank} never said {text!r}, but {seen!r}"
            assert self.ranks[rank].poll() is None or seen, self.ranks[rank].stderr.read()
            chunk = os.read(stdout.fileno(), 4096) if readable(stdout.fileno()) else b""
            seen += chunk.decode()
        os.set_blocking(stdout.fileno(), True)

    def end(self, timeout: float = 60) -> list[Ended]:
        until = time.monotonic() + timeout
        ended = []
        for process in self.ranks:
            out, err = process.communicate(timeout=max(0.1, until - time.monotonic()))
            ended.append(Ended(process.returncode, out, err))
        return ended

    def succeed(self, timeout: float = 60) -> list[str]:
        """All ranks end well; what they printed."""
        ended = self.end(timeout)
        if any(end.code != 0 for end in ended):
            report = "\n".join(f"rank {n}: {e.code}\n{e.out}\n{e.err}" for n, e in enumerate(ended))
            pytest.fail(report, pytrace=False)
        return [end.out for end in ended]

    def stop(self) -> None:
        for process in self.ranks:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def readable(descriptor: int) -> bool:
    import select

    return bool(select.select([descriptor], [], [], 0.05)[0])


def clean_environment() -> dict[str, str]:
    """The environment without anything that a launcher might have set."""
    prefixes = ("LYCAON_", "MLX_", "JACCL_", "OMPI_", "PMI", "SLURM_")
    torchrun = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"}
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(prefixes) and name not in torchrun
    }
    return kept | {"OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def job(tmp_path: Path):
    job = Job(tmp_path)
    yield job
    job.stop()


@pytest.fixture
def alone():
    """A group of one in this process."""
    import lycaon

    with lycaon.init(lycaon.Config()) as group:
        yield group
