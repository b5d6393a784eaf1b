"""Ranks beside a script: what travels, what fails, and what is left."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import clean_environment

import lycaon
from lycaon.cluster import ClusterError, RankError, RankFailure


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(pids: list[int], within: float) -> None:
    until = time.monotonic() + within
    while left := [pid for pid in pids if alive(pid)]:
        assert time.monotonic() < until, f"processes {left} are left after {within} s"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def shared():
    with lycaon.Cluster(3) as cluster:
        yield cluster


def test_a_closure_runs_on_every_rank(shared):
    scale = np.arange(4.0)

    def weighted(offset, *, factor):
        group = lycaon.init()
        return group.all_reduce(scale * factor + group.rank() + offset), group.rank()

    results = shared.run(weighted, 10, factor=2)
    expected = sum(scale * 2 + rank + 10 for rank in range(3))
    assert [rank for _, rank in results] == [0, 1, 2]
    assert all((total == expected).all() for total, _ in results)
    assert shared.run(lambda: lycaon.init().rank(), ranks=[2, 0]) == [2, 0]


def test_large_arrays_travel_both_ways_and_can_be_written(shared):
    big = np.arange(3_000_000.0)
    shared.push(there=big, odd=big[::3], empty=np.empty((0, 4)))
    results = shared.run(lambda: (there * rank, odd.sum(), empty.shape))  # noqa: F821
    for at, (mine, total, shape) in enumerate(results):
        assert (mine == big * at).all() and total == big[::3].sum() and shape == (0, 4)
        mine += 1


def test_names_stay_on_the_ranks(shared):
    def begin(start):
        global counter
        counter = start + rank  # noqa: F821

    def more():
        global counter
        counter += 1
        return counter

    shared.run(begin, 40)
    assert shared.run(more) == [41, 42, 43]
    assert shared.pull("counter") == [41, 42, 43]
    assert shared.pull("counter", "size", ranks=[1]) == [[42, 3]]
    with pytest.raises(RankError, match="name 'nowhere' is not defined"):
        shared.pull("nowhere")


def test_an_error_names_its_rank_and_shows_the_line(shared, capfd):
    def fails():
        group = lycaon.init()
        if group.rank() == 1:
            raise LookupError("no such shard")  # the line
        return group.all_reduce(1.0)

    began = time.monotonic()
    with pytest.raises(RankError) as caught:
        shared.run(fails)
    assert time.monotonic() - began < 5, "the others waited for the rank that failed"
    error = caught.value
    text = str(error)
    assert error.rank == 1 and isinstance(error.__cause__, LookupError)
    assert text.startswith("rank 1 of 3 raised LookupError: no such shard")
    assert 'raise LookupError("no such shard")  # the line' in text
    assert "cluster/_rank.py" not in text
    assert "as a consequence, rank 0: RankLeft" in text and error.failures[2].consequence
    assert shared.run(lambda: lycaon.init().all_reduce(2).item()) == [6, 6, 6]
    assert "variables of the ranks are kept" in capfd.readouterr().err


def test_an_error_of_all_ranks_is_told_once(shared):
    def fails():
        raise ValueError("the same everywhere")

    pids = shared.pids
    with pytest.raises(RankError, match=r"^ranks 0, 1, 2 of 3 raised ValueError: the same"):
        shared.run(fails)
    assert shared.pids == pids


def test_a_mismatch_is_no_hang(shared):
    def differs():
        group = lycaon.init()
        return group.all_reduce(1.0) if group.rank() else group.all_gather(1.0)

    with pytest.raises(RankError, match="Mismatch"):
        shared.run(differs)
    assert shared.run(lambda: lycaon.init().size()) == [3, 3, 3]


def test_a_rank_that_dies_is_started_anew(shared, capfd):
    shared.push(kept=5)

    def dies():
        if lycaon.init().rank() == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        lycaon.init().barrier()

    before = shared.pids
    with pytest.raises(RankError, match="^rank 2 of 3 was killed by SIGKILL"):
        shared.run(dies)
    after = shared.pids
    assert after[0] == before[0] and after[1] == before[1] and after[2] != before[2]
    assert shared.run(lambda: lycaon.init().all_reduce(1).item()) == [3, 3, 3]
    assert shared.pull("kept", ranks=[0, 1]) == [5, 5]
    assert "rank 2 was killed by SIGKILL; it is started anew" in capfd.readouterr().err


def test_what_cannot_travel_is_said(shared):
    with pytest.raises(RankError, match=r"the result \(of type generator\) cannot be sent"):
        shared.run(lambda: (n for n in range(3)))
    with pytest.raises(ClusterError, match="cannot be sent to the ranks"):
        shared.run(lambda lock: lock, threading.Lock())

    def raises_its_own():
        class Own(Exception):
            def __reduce__(self):
                raise TypeError("stays")

        raise Own("mine")

    with pytest.raises(RankError, match="Own: mine") as caught:
        shared.run(raises_its_own)
    assert caught.value.__cause__ is None


def test_output_is_tagged_by_line_also_without_an_end(shared, capfd):
    def prints():
        rank = lycaon.init().rank()
        print(f"first {rank}\nsecond {rank}", end="")
        os.write(2, f"raw {rank}\n".encode())

    shared.run(prints)
    captured = capfd.readouterr()
    expected = [f"[{r}] {word} {r}" for r in range(3) for word in ("first", "second")]
    assert sorted(captured.out.splitlines()) == sorted(expected)
    assert sorted(captured.err.splitlines()) == [f"[{r}] raw {r}" for r in range(3)]


def test_a_time_out_interrupts_and_the_group_survives(shared):
    def sleeps():
        time.sleep(60)

    pids = shared.pids
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"ranks 0, 1, 2 had not ended after 0.5 s"):
        shared.run(sleeps, timeout=0.5)
    assert time.monotonic() - began < 5
    assert shared.run(lambda: lycaon.init().all_reduce(1).item()) == [3, 3, 3]
    assert shared.pids == pids


def test_a_rank_that_does_not_react_is_killed(shared, capfd):
    def deaf():
        if lycaon.init().rank() == 1:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            time.sleep(120)

    with pytest.raises(TimeoutError):
        shared.run(deaf, timeout=0.5)
    assert "rank 1 did not react and had to be killed" in capfd.readouterr().err
    assert shared.run(lambda: lycaon.init().all_reduce(1).item()) == [3, 3, 3]


def test_calls_in_the_background(shared):
    async def both():
        first = shared.run_async(lambda: lycaon.init().rank(), ranks=[1])
        second = shared.run_async(lambda x: x + lycaon.init().rank(), 10, ranks=[0, 2])
        return await asyncio.gather(first, second)

    assert asyncio.run(both()) == [[1], [10, 12]]
    call = shared.run_async(time.sleep, 60)
    assert not call.done()
    with pytest.raises(TimeoutError):
        call.result(0.1)
    call.interrupt()
    with pytest.raises(RankError, match="KeyboardInterrupt"):
        call.result(10)
    assert shared.run(lambda: lycaon.init().all_reduce(1).item()) == [3, 3, 3]


def test_an_interruption_reaches_a_call_before_its_turn(shared):
    first = shared.run_async(time.sleep, 1)
    second = shared.run_async(time.sleep, 60)
    second.interrupt()
    with pytest.raises(RankError, match="KeyboardInterrupt"):
        second.result(10)
    assert first.result(0) == [None] * 3
    assert shared.run(lambda: lycaon.init().all_reduce(1).item()) == [3, 3, 3]


def test_what_makes_no_sense_is_refused(shared):
    with pytest.raises(ValueError, match="there is no rank 3: the cluster has 3"):
        shared.run(print, ranks=[3])
    with pytest.raises(ValueError, match="no ranks are chosen"):
        shared.run(print, ranks=[])
    with pytest.raises(ValueError, match="at least one rank"):
        lycaon.Cluster(0)
    with pytest.raises(ClusterError, match="join=True"):
        _ = shared.group


def test_this_process_can_be_a_rank():
    with lycaon.Cluster(3, join=True) as cluster:
        call = cluster.run_async(lambda: lycaon.init().all_gather(lycaon.init().rank()).tolist())
        assert cluster.group.all_gather(0).tolist() == [0, 1, 2]
        assert call.result(10) == [[0, 1, 2]] * 2
        me = os.getpid()
        assert cluster.run(lambda: os.getpid() == me) == [True, False, False]
        assert cluster.run(lambda: lycaon.all_reduce(lycaon.init().rank()).item()) == [3, 3, 3]

        def fails():
            if lycaon.init().rank() == 0:
                raise ValueError("here")
            lycaon.init().barrier()

        old = cluster.group
        with pytest.raises(RankError, match="^rank 0 of 3 raised ValueError: here"):
            cluster.run(fails)
        assert cluster.group is not old and cluster.group.size() == 3
        with pytest.raises(ValueError, match="rank 0 is this process"):
            cluster.run_async(print, ranks=[0])
        assert cluster.run(lambda: lycaon.all_reduce(1).item()) == [3, 3, 3]


def test_a_closed_cluster_says_so_and_leaves_nothing():
    cluster = lycaon.Cluster(2)
    pids = [*cluster.pids.values(), cluster._crew.guardian.pid]
    folder = cluster._crew.folder

    def starts_a_process():
        return subprocess.Popen(["sleep", "300"], start_new_session=True).pid

    pids += cluster.run(starts_a_process)
    call = cluster.run_async(time.sleep, 60)
    cluster.close()
    cluster.close()
    wait_until_gone(pids, 2)
    assert not folder.exists() and not list(Path("/dev/shm").glob("*cluster*"))
    with pytest.raises(RankError):
        call.result(5)
    with pytest.raises(ClusterError, match="closed"):
        cluster.run(print)
    assert repr(cluster) == "<lycaon.Cluster of 2: closed>"


def test_a_cluster_that_nobody_holds_closes():
    import gc

    cluster = lycaon.Cluster(2)
    pids = list(cluster.pids.values())
    del cluster
    gc.collect()
    wait_until_gone(pids, 3)


def test_nothing_secret_is_on_a_command_line(shared):
    token = shared.run(lambda: os.environ["LYCAON_TOKEN"])[0]
    assert len(token) == 64
    for pid in [*shared.pids.values(), shared._crew.guardian.pid]:
        for name in ("cmdline", "environ"):
            assert token.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()


def test_failures_can_be_pickled():
    import pickle

    failures = {2: RankFailure(2, "ValueError", "x", "trace", ValueError("x"), False, 1.0)}
    error = pickle.loads(pickle.dumps(RankError(failures, 3)))
    assert error.rank == 2 and str(error) == str(RankError(failures, 3))


def test_the_plain_form_for_scripts(tmp_path):
    path = tmp_path / "plain.py"
    path.write_text(
        textwrap.dedent("""
        import lycaon
        def total(x):
            return lycaon.all_reduce(x * lycaon.init().rank()).item()
        if __name__ == "__main__":
            print(lycaon.run(total, 5, n=3))
        """)
    )
    out = subprocess.run(
        [sys.executable, str(path)], env=clean_environment(), capture_output=True, timeout=60
    )
    assert out.stdout == b"[15, 15, 15]\n", out.stderr


def test_without_cloudpickle_functions_of_modules_travel(tmp_path):
    (tmp_path / "mine.py").write_text("import lycaon\ndef where(): return lycaon.init().rank()\n")
    path = tmp_path / "plain.py"
    path.write_text(
        textwrap.dedent("""
        import sys
        sys.modules["cloudpickle"] = None
        import lycaon, mine
        with lycaon.Cluster(2) as c:
            print(c.run(mine.where))
            try:
                c.run(lambda: 1)
            except lycaon.ClusterError as error:
                print("pip install cloudpickle" in str(error))
        """)
    )
    out = subprocess.run(
        [sys.executable, str(path)], env=clean_environment(), capture_output=True, timeout=60
    )
    assert out.stdout == b"[0, 1]\nTrue\n", out.stderr


def test_the_import_is_light():
    """What is imported is counted, and of the time only what the processor spent."""
    program = """
import sys, time
before, began = set(sys.modules), time.process_time()
import lycaon
took = time.process_time() - began
print(took, *sorted(set(sys.modules) - before))
"""
    times = []
    for _ in range(7):
        command = [sys.executable, "-I", "-c", program]
        out = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        took, *modules = out.split()
        times.append(float(took))
    heavy = {"numpy", "torch", "jax", "IPython", "cloudpickle", "asyncio", "subprocess", "typing"}
    assert not heavy & set(modules), modules
    assert len(modules) < 30, modules
    assert min(times) < 0.05, times
