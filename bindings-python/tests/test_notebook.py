"""Notebooks: the ones in `examples`, and what a kernel's end and interruption do to the ranks."""

import os
import re
import signal
import time
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from test_cluster import alive, wait_until_gone

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/notebook"


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """A kernel without network: its sockets are files."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "r"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "i"))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    manager = KernelManager(kernel_name="python3", transport="ipc")
    yield manager
    if manager.has_kernel:
        manager.shutdown_kernel(now=True)


def executed(name: str, manager, *, errors: bool) -> list:
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    NotebookClient(notebook, km=manager, timeout=90, allow_errors=errors).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def printed(cell) -> str:
    return plain("".join(o.text for o in cell.outputs if o.output_type == "stream"))


def images(cell) -> int:
    return sum("image/png" in output.get("data", {}) for output in cell.outputs)


def test_the_tutorial_runs_from_top_to_bottom(manager):
    cells = executed("tutorial.ipynb", manager, errors=False)
    assert "rank 2 of 3" in cells[0].outputs[-1].data["text/plain"]
    lines = printed(cells[1]).splitlines()
    assert sorted(line[:4] for line in lines) == ["[0] ", "[1] ", "[2] "]
    assert all(line.endswith("-> [  6.  60. 600.]") for line in lines)
    assert images(cells[3]) == 2, "a plot of each chosen rank"
    assert [images(cell) for cell in cells[4:9]] == [1, 0, 0, 1, 1]
    assert "all ranks have the same weights" in printed(cells[6])
    assert "there: [[0, 1, 2], [0, 1, 2]]" in printed(cells[9])


def test_errors_in_a_notebook_name_the_rank(manager):
    cells = executed("errors.ipynb", manager, errors=True)
    for cell, kind in ((cells[1], "IndexError"), (cells[2], "ZeroDivisionError")):
        (error,) = [output for output in cell.outputs if output.output_type == "error"]
        text = plain("\n".join(error.traceback))
        assert text.startswith(f"rank 2 of 3 raised {kind}: ")
        assert "as a consequence, rank 0: RankLeft" in text
        assert "lycaon/cluster" not in text and len(text.splitlines()) < 20, text
    assert "shards[rank]  # there are only two" in plain("\n".join(cells[1].outputs[-1].traceback))
    assert cells[3].outputs[-1].data["text/plain"] == "[3, 3, 3]"


class Kernel:
    def __init__(self, manager) -> None:
        manager.start_kernel()
        self.manager = manager
        self.client = manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, source: str) -> str:
        out: list[str] = []

        def hook(message) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                out.append(content["text"])
            elif message["msg_type"] == "error":
                out.append(f"{content['ename']}: {content['evalue']}")

        self.client.execute_interactive(source, timeout=60, output_hook=hook)
        return plain("".join(out))

    def begin(self, source: str, until: str) -> None:
        self.client.execute(source)
        seen, end = "", time.monotonic() + 60
        while until not in seen:
            assert time.monotonic() < end, seen
            message = self.client.get_iopub_msg(timeout=60)
            seen += plain(message["content"].get("text", ""))

    def reply(self) -> dict:
        return self.client.get_shell_msg(timeout=30)["content"]


START = """
import os, subprocess, time
import lycaon
%load_ext lycaon
c = lycaon.Cluster(2)
print(*c.pids.values(), c._crew.guardian.pid)
"""
BUSY = """
def work():
    group = lycaon.init()
    print("child", subprocess.Popen(["sleep", "300"], start_new_session=True).pid)
    print("working", flush=True)
    if group.rank():
        sum(range(10**11))
    group.barrier()
c.run(work)
"""


def test_nothing_is_left_when_the_kernel_is_killed(manager):
    kernel = Kernel(manager)
    pids = [int(word) for word in kernel.run(START).split()]
    child = "c.run(lambda: subprocess.Popen(['sleep', '300'], start_new_session=True).pid)"
    pids += [int(word) for word in kernel.run(f"print(*{child})").split()]
    assert len(pids) == 5 and all(alive(pid) for pid in pids)
    kernel.begin(BUSY, "working")
    os.kill(manager.provisioner.pid, signal.SIGKILL)
    try:
        wait_until_gone(pids, 2)
    finally:
        for pid in pids:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        kernel.client.stop_channels()


@pytest.mark.parametrize("cell", ["c.run(work)", "%%lycaon\nwork()"])
def test_interrupting_a_cell_interrupts_the_ranks(manager, cell):
    kernel = Kernel(manager)
    kernel.run(START)
    kernel.run("def work():\n    import time\n    print('working', flush=True)\n    time.sleep(60)")
    kernel.run("c.push(work=work, kept=7)")
    kernel.begin(cell, "working")
    manager.interrupt_kernel()
    # Replies of earlier cells have been taken by `execute_interactive`.
    assert kernel.reply()["ename"] == "KeyboardInterrupt"
    text = kernel.run("print(c.run(lambda: lycaon.all_reduce(kept).item()), c.pull('kept'))")
    assert text == "[14, 14] [7, 7]\n"
    kernel.client.stop_channels()
