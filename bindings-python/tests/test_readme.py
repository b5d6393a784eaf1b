"""The README's Python examples run as they are written, on one rank and on three."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
LYCAON = pathlib.Path(sys.executable).with_name("lycaon")


def blocks() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, flags=re.S)


def examples() -> list[str]:
    return [code for code in blocks() if "lycaon.Cluster" not in code]


def test_in_a_notebook() -> None:
    """The last line is an expression, whose value a notebook shows."""
    (code,) = [code for code in blocks() if "lycaon.Cluster" in code]
    *lines, last = code.strip().splitlines()
    expression = last.partition("  #")[0].partition(" #")[0]
    program = "\n".join([*lines, f"print(*map(int, {expression}))"])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "6 6 6 6\n"


def test_there_are_examples() -> None:
    assert examples()


@pytest.mark.parametrize("code", examples())
def test_alone(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0 [0. 1. 2. 3.]\n"


@pytest.mark.parametrize("code", examples())
def test_with_three_ranks(code: str, tmp_path: pathlib.Path) -> None:
    program = tmp_path / "example.py"
    program.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [str(LYCAON), "launch", "-n", "3", "--", sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert lines == [f"[{rank}] {rank} [ 3.  6.  9. 12.]" for rank in range(3)]
