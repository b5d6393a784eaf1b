"""The stubs: complete, and usable under strict type checkers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command):
    answer = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, timeout=200, cwd=ROOT
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_stubs_agree_with_the_module():
    run(ROOT / "bindings-python/tools/check_stubs.py")


PROGRAM = """
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


@pytest.fixture
def programs(tmp_path):
    """The examples, and what they do not show of the types of results."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    examples = sorted((ROOT / "examples").glob("*/*.py"))
    assert len(examples) >= 5
    return [program, *examples]


@pytest.mark.timeout(240)
def test_examples_and_module_are_clean_under_strict_mypy(tmp_path, programs):
    module = ROOT / "bindings-python/python/lycaon/cluster"
    run("-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", module, *programs)


@pytest.mark.timeout(240)
def test_examples_are_clean_under_strict_pyright(tmp_path, programs):
    settings = {"typeCheckingMode": "strict", "include": list(map(str, programs))}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    run("-m", "pyright", "--pythonpath", sys.executable, "--project", tmp_path)
