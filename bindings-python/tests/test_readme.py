"""The README's Python examples run as they are written, on one rank and on three."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
LYCAON = pathlib.Path(sys.executable).with_name("lycaon")


def examples() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, flags=re.S)


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
