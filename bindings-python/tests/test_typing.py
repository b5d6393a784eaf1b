"""The stubs: complete, and usable under `mypy --strict`."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*command):
    answer = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, timeout=100, cwd=ROOT
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_stubs_agree_with_the_module():
    run(ROOT / "bindings-python/tools/check_stubs.py")


def test_examples_are_clean_under_strict_mypy(tmp_path):
    examples = sorted((ROOT / "examples").glob("*/*.py"))
    assert len(examples) >= 5
    for example in examples:
        run("-m", "mypy", "--strict", "--cache-dir", tmp_path, example)


def test_notebooks_support_is_clean_under_strict_mypy(tmp_path):
    run("-m", "mypy", "--strict", "--cache-dir", tmp_path, ROOT / "bindings-python/python/lycaon/cluster")


def test_examples_are_clean_under_pyright():
    examples = sorted((ROOT / "examples").glob("*/*.py"))
    run("-m", "pyright", "--pythonpath", sys.executable, *examples)


def test_types_of_results(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        """
import numpy as np
from numpy.typing import NDArray
import lycaon

group = lycaon.init()
x = np.ones(3, np.float32)
summed: NDArray[np.float32] = group.all_reduce(x)
joined: NDArray[np.float32] = lycaon.all_gather(x)
maybe: NDArray[np.float32] | None = group.reduce(x)
work: lycaon.Work[NDArray[np.float32]] = group.all_reduce_async(x, out=x)
done: NDArray[np.float32] = work.wait(timeout=1.0)
group.all_reduce(b"abc")
group.timeout = 3
part: lycaon.Group = group.split(0)
perhaps: lycaon.Group | None = group.split(None)
try:
    group.barrier()
except lycaon.RankDied as error:
    rank: int = error.dead_rank
with lycaon.Cluster(2) as cluster:
    names: list[str] = cluster.run(str, 3)
    lengths: list[int] = lycaon.run(len, "abc", n=2)
"""
    )
    run("-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", program)
