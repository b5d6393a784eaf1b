"""Runs every example, in every language, with 2 and with 3 ranks, and checks what it prints."""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def all_reduce(size: int) -> list[str]:
    total = [float(at * size + 10 * sum(range(size))) for at in range(4)]
    largest = [float(at + 10 * (size - 1)) for at in range(4)]
    mean = [value / size for value in total]
    return [f"rank {r} of {size}: sum {total}, max {largest}, mean {mean}" for r in range(size)]


def send_recv(size: int) -> list[str]:
    lines = [f"the baton came back as {list(range(size))}"]
    for rank in range(size):
        before = (rank - 1) % size
        lines.append(f"rank {rank} got {before + 0.5} from rank {before} in 1 exchange")
    return lines


def split(size: int) -> list[str]:
    lines = []
    for rank in range(size):
        row = [other for other in range(size) if other // 2 == rank // 2]
        column = [other for other in range(size) if other % 2 == rank % 2]
        place = f"is {rank} of {min(size, 2)}" if rank < 2 else "stays out"
        lines.append(
            f"rank {rank}: row {row} sums to {sum(row) + len(row)}, "
            f"column {column} sums to {sum(column) + len(column)}; of the first row it {place}"
        )
    return lines


def async_overlap(size: int) -> list[str]:
    text = "6 layers of 50000 gradients reduced in the background"
    return [f"rank {rank}: {text}" for rank in range(size)]


EXAMPLES = {
    "all_reduce": all_reduce,
    "send_recv": send_recv,
    "split": split,
    "async_overlap": async_overlap,
}


def launch(lycaon: Path, size: int, command: list[str], limit: int = 120) -> list[str]:
    """What the ranks print. The launcher ends them all when the time is over."""
    options = ["-n", str(size), "--no-tag-output", "--timeout", str(limit)]
    answer = subprocess.run(
        [str(lycaon), "launch", *options, "--", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit + 30,
    )
    if answer.returncode != 0:
        raise SystemExit(
            f"{' '.join(command)} with {size} ranks: code {answer.returncode}\n"
            f"{answer.stdout}{answer.stderr}"
        )
    return answer.stdout.splitlines()


COMPILERS = {"c": ["cc", "-std=c11"], "cpp": ["c++", "-std=c++17", "-Wpedantic"]}


def build(name: str, language: str, library: Path, folder: Path) -> Path:
    """Builds the program of an example in C or C++ against the shared library."""
    program = folder / f"{name}-{language}"
    header = HERE.parent / "bindings-c" / "include"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-I", str(header)]
    for link in ("liblycaon.so", "liblycaon.so.1"):
        if not (folder / link).exists():
            (folder / link).symlink_to(library)
    link = ["-L", str(folder), "-llycaon", f"-Wl,-rpath,{folder}", "-o", str(program)]
    source = str(HERE / name / f"{name}.{language}")
    subprocess.run([*COMPILERS[language], *flags, source, *link], check=True)
    return program


def check(lycaon: Path, programs: Path, folder: Path) -> None:
    library = lycaon.parent / "liblycaon_c.so"
    for name, expected in EXAMPLES.items():
        commands = {
            "Rust": [str(programs / name)],
            "C": [str(build(name, "c", library, folder))],
            "C++": [str(build(name, "cpp", library, folder))],
            "Python": [sys.executable, str(HERE / name / f"{name}.py")],
        }
        for language, command in commands.items():
            for size in (2, 3):
                began = time.monotonic()
                printed = sorted(launch(lycaon, size, command))
                if printed != sorted(expected(size)):
                    raise SystemExit(
                        f"{name} in {language} with {size} ranks printed\n  "
                        + "\n  ".join(printed)
                        + "\ninstead of\n  "
                        + "\n  ".join(sorted(expected(size)))
                    )
                took = time.monotonic() - began
                print(f"  ok  {name:14} {language:7} {size} ranks  {took:5.1f} s", flush=True)


def check_heat(lycaon: Path, folder: Path) -> None:
    program = build("heat", "cpp", lycaon.parent / "liblycaon_c.so", folder)
    picture = folder / "heat.ppm"
    for size in (1, 2, 3):
        began = time.monotonic()
        # 50 rows do not come out even on three ranks.
        lines = launch(lycaon, size, [str(program), "50", str(picture)])
        if "all 2500 temperatures are those of the serial run, bit for bit" not in lines:
            raise SystemExit(f"heat with {size} ranks: no agreement in\n" + "\n".join(lines))
        head = b"P6\n50 50\n255\n"
        content = picture.read_bytes()
        if not content.startswith(head) or len(content) != len(head) + 3 * 2500:
            raise SystemExit(f"heat with {size} ranks: the picture has {len(content)} bytes")
        # The edge on the left is hot, the one on the right is cold, and the disc is in between.
        row = [content[len(head) + 3 * (25 * 50 + at) :][:3] for at in (0, 32, 49)]
        if row[0] != b"\xff\xff\xff" or row[2] != b"\0\0\0" or not row[2] < row[1] < row[0]:
            raise SystemExit(f"heat with {size} ranks: the picture shows {row}")
        took = time.monotonic() - began
        print(f"  ok  {'heat':14} {'C++':7} {size} ranks  {took:5.1f} s", flush=True)


def check_digits(lycaon: Path) -> None:
    for size in (2, 3):
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            picture = Path(folder) / "digits.png"
            command = [sys.executable, str(HERE / "digits/digits.py"), "--plot", str(picture)]
            lines = launch(lycaon, size, command)
            if not any(line.startswith("both runs agree") for line in lines):
                raise SystemExit(f"digits with {size} ranks: no agreement in\n" + "\n".join(lines))
            if not picture.read_bytes().startswith(b"\x89PNG"):
                raise SystemExit(f"digits with {size} ranks: the plot is no PNG")
        took = time.monotonic() - began
        print(f"  ok  {'digits':14} {'Python':7} {size} ranks  {took:5.1f} s", flush=True)


def check_cxx_bridge(lycaon: Path) -> None:
    """The C++ program that is built together with Rust, by plain CMake."""
    with tempfile.TemporaryDirectory() as folder:
        # What cargo has built already is not built again.
        target = f"-DLYCAON_TARGET_DIR={lycaon.parent.parent}"
        source = str(HERE / "cxx_bridge")
        for step in (["-S", source, "-B", folder, target], ["--build", folder]):
            built = subprocess.run(
                ["cmake", *step], stdin=subprocess.DEVNULL, capture_output=True, text=True
            )
            if built.returncode != 0:
                raise SystemExit(f"cmake {' '.join(step)}:\n{built.stdout}{built.stderr}")
        for size in (2, 3):
            began = time.monotonic()
            printed = launch(lycaon, size, [f"{folder}/cxx_bridge"])
            deviation = math.sqrt(8.25 + (size**2 - 1) / 12)
            total = size * (size + 1) // 2
            expected = f"{size} ranks: mean {4 + size / 2:.3f}, deviation {deviation:.3f}, sum {total}"
            refused = f"refused: no_such_rank: root {size} is not in the group"
            if printed[0] != expected or not printed[1].startswith(refused):
                raise SystemExit(f"cxx_bridge with {size} ranks: no {expected!r} in {printed}")
            took = time.monotonic() - began
            print(f"  ok  {'cxx_bridge':14} {'C++':7} {size} ranks  {took:5.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lycaon", type=Path, default=Path("target/release/lycaon"))
    parser.add_argument("--programs", type=Path, help="the folder of the built Rust examples")
    arguments = parser.parse_args()
    lycaon = arguments.lycaon.resolve()
    with tempfile.TemporaryDirectory() as folder:
        check(lycaon, arguments.programs or lycaon.parent / "examples", Path(folder))
        check_heat(lycaon, Path(folder))
    check_cxx_bridge(lycaon)
    check_digits(lycaon)


if __name__ == "__main__":
    main()
