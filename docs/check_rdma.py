#!/usr/bin/env python3
"""Compares docs/rdma.md with the sources: the error texts of its troubleshooting table, the
variables it names, and its pictures."""

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
SOURCES = [DOCS.parent / "core/src", DOCS.parent / "core/launch/src"]
PAGE = DOCS / "rdma.md"

# A string of Rust; a line that ends with a backslash goes on after the next one's blanks.
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
CONTINUED = re.compile(r"\\\n\s*")
# What is filled in: {rank}, {waited:.1?}, {}.
FILLED = re.compile(r"(?:\{[^{}]*\})+")


def strings():
    """All strings of the sources, with … for what is filled in."""
    for file in sorted(file for folder in SOURCES for file in folder.rglob("*.rs")):
        if "tests" in file.parts or file.name == "tests.rs":
            continue
        for string in STRING.findall(file.read_text()):
            yield FILLED.sub("…", CONTINUED.sub("", string))


def quoted():
    """The texts in the first cells of the troubleshooting table, with their lines."""
    table = False
    for number, line in enumerate(PAGE.read_text().splitlines(), 1):
        if line.startswith("| text |"):
            table = True
        elif not line.startswith("|"):
            table = False
        elif table and not line.startswith("|---"):
            for text in re.findall(r"`([^`]+)`", line.split("|")[1]):
                yield number, text


def main():
    known = list(strings())
    texts = list(quoted())
    problems = [
        f"{PAGE.name}:{number}: no message says: {text}"
        for number, text in texts
        if not any(text in string for string in known)
    ]
    if len(texts) < 15:
        problems.append(f"{PAGE.name}: only {len(texts)} error texts were found in the table")
    page = PAGE.read_text()
    for variable in sorted(set(re.findall(r"\b(?:LYCAON|MLX|JACCL)_[A-Z_]+\b", page))):
        if not any(variable in string for string in known):
            problems.append(f"{PAGE.name}: nothing reads {variable}")
    for picture in re.findall(r"\]\((pictures/[^)]+)\)", page):
        if not (DOCS / picture).exists():
            problems.append(f"{PAGE.name}: no picture {picture}")
    drawn = subprocess.run(
        [sys.executable, str(DOCS / "pictures/rdma.py"), "--check"], capture_output=True, text=True
    )
    if drawn.returncode != 0:
        problems.append(drawn.stderr.strip())
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
