"""What is left when the notebook, its guardian, or both of them end: nothing."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import clean_environment
from test_cluster import alive, wait_until_gone

import lycaon
from lycaon.cluster import ClusterError, _crew, _guardian
from lycaon.cluster._guardian import Guardian, GuardianLost, marked
from lycaon.cluster._wire import Channel

SCRIPT = """
import os, subprocess, sys, time
import lycaon

def work(way):
    import numpy  # which cannot be imported again where an interruption ended its import
    rank = lycaon.init().rank()
    child = subprocess.Popen(["sleep", "300"]).pid
    stranger = subprocess.Popen(["sleep", "300"], start_new_session=True).pid
    print(f"rank {os.getpid()} child {child} stranger {stranger}", flush=True)
    if way == "waits":
        lycaon.init().recv((1,), int, 1 - rank)
    elif way == "holds":
        sum(range(10**11))  # with the GIL, for minutes
    else:
        time.sleep(300)

if __name__ == "__main__":
    c = lycaon.Cluster(2)
    print("guardian", c._crew.guardian.pid, flush=True)
    if sys.argv[2:] and os.fork() == 0:
        print("fork", os.getpid(), flush=True)
        time.sleep(300)
    try:
        c.run(work, sys.argv[1])
    except (KeyboardInterrupt, lycaon.RankError) as error:
        print(getattr(error, "headline", "interrupted"), flush=True)
        print(c.run(lambda: lycaon.all_reduce(1).item()), flush=True)
"""


@dataclass
class Started:
    process: subprocess.Popen
    pids: dict[str, list[int]] = field(default_factory=dict)

    def of(self, *kinds: str) -> list[int]:
        return [pid for kind in kinds for pid in self.pids[kind]]


@pytest.fixture
def script(tmp_path):
    started = []

    def start(way: str, fork: str = "") -> Started:
        path = tmp_path / "script.py"
        path.write_text(SCRIPT)
        process = subprocess.Popen(
            [sys.executable, str(path), way, *([fork] if fork else [])],
            # Where the owner and the guardian are killed together, nobody is left to remove its folder.
            env=clean_environment() | {"TMPDIR": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # Whoever runs the tests in the background of a shell has it ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        it = Started(process)
        started.append(it)
        while sum(map(len, it.pids.values())) < (8 if fork else 7):
            line = process.stdout.readline()
            assert line, f"it ended with {process.wait()}"
            words = line.removeprefix("[0] ").removeprefix("[1] ").split()
            for kind, pid in zip(words[::2], words[1::2], strict=True):
                it.pids.setdefault(kind, []).append(int(pid))
        return it

    yield start
    for it in started:
        for pid in it.of(*it.pids):
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        it.process.kill()
        it.process.wait()
        it.process.stdout.close()


WAYS = ["waits", "holds", "sleeps"]
RANKS = ("rank", "child", "stranger")


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_left_when_the_owner_is_killed(script, way):
    it = script(way)
    it.process.kill()
    it.process.wait()
    wait_until_gone(it.of("guardian", *RANKS), 2)


def test_a_fork_of_the_owner_keeps_nothing_alive(script):
    it = script("sleeps", "fork")
    it.process.kill()
    it.process.wait()
    wait_until_gone(it.of("guardian", *RANKS), 2)
    assert alive(it.pids["fork"][0])


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_left_when_the_guardian_is_killed(script, way):
    it = script(way)
    os.kill(it.pids["guardian"][0], signal.SIGKILL)
    wait_until_gone(it.of("guardian", *RANKS), 2)
    # The owner goes on with another guardian and other ranks.
    out, _ = it.process.communicate(timeout=30)
    error, result = out.splitlines()
    # One may still have told of the death of the other before its own.
    reason = "ended with the guardian of the ranks, which was killed by SIGKILL"
    assert re.fullmatch(f"(ranks 0, 1 of 2 were|rank [01] of 2 was) {reason}", error), error
    assert result == "[2, 2]"
    assert it.process.returncode == 0


@pytest.mark.parametrize("way", WAYS)
def test_ranks_and_their_groups_end_also_when_both_are_killed(script, way):
    it = script(way)
    os.kill(it.pids["guardian"][0], signal.SIGKILL)
    it.process.kill()
    it.process.wait()
    wait_until_gone(it.of("guardian", "rank", "child"), 2)


def test_a_guardian_that_is_told_to_go_takes_the_ranks_along(script):
    it = script("sleeps")
    os.kill(it.pids["guardian"][0], signal.SIGTERM)
    wait_until_gone(it.of("guardian", *RANKS), 2)


@pytest.mark.parametrize("way", ["waits", "sleeps"])
def test_an_interruption_reaches_the_ranks(script, way):
    it = script(way)
    it.process.send_signal(signal.SIGINT)
    out, _ = it.process.communicate(timeout=20)
    assert out.splitlines() == ["interrupted", "[2, 2]"] and it.process.returncode == 0


def descriptors() -> set[str]:
    """Sockets, pipes and processes that are open here."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            what = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:
            continue  # that of the listing itself
        if what.startswith(("socket:", "pipe:", "anon_inode:[pidfd]")):
            found.add(f"{descriptor} {what}")
    return found


def threads() -> list[str]:
    ours = ("lycaon-guardian", "lycaon-rank", "lycaon-start")
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(ours)]


def wait_until(condition, within: float = 5) -> None:
    until = time.monotonic() + within
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_the_guardian_may_be_killed_at_any_moment():
    """While ranks start, while calls run, while a group is formed anew: nothing but an error of
    the cluster ever comes of it, the cluster goes on, and nothing is left of what was."""
    wait_until(lambda: not threads())
    before = descriptors()
    chance = random.Random(1)
    with lycaon.Cluster(2) as cluster:
        marks = []
        for _ in range(12):
            guardian, after = cluster._crew.guardian, chance.uniform(0, 0.4)
            marks.append(guardian._mark)
            killer = threading.Timer(after, os.kill, (guardian.pid, signal.SIGKILL))
            killer.start()
            failures = 0
            until = time.monotonic() + 30
            while killer.is_alive() or not guardian.lost():
                assert time.monotonic() < until
                try:
                    cluster.run(lambda: lycaon.init().all_gather(lycaon.init().rank()).tolist())
                    if chance.random() < 0.3:
                        cluster.restart()
                except ClusterError:
                    failures += 1
            killer.join()
            assert failures <= 3, "it is put right by the next call"
            for attempt in range(2):  # the loss may be noticed only by this call
                try:
                    assert cluster.run(lambda: lycaon.all_reduce(1).item()) == [2, 2]
                    break
                except ClusterError:
                    assert attempt == 0
            assert len(list(marked(cluster._crew.guardian._mark))) == 2
        assert not [pid for mark in marks for pid in marked(mark)]
        marks.append(cluster._crew.guardian._mark)
    assert not [pid for mark in marks for pid in marked(mark)]
    wait_until(lambda: not threads())
    assert descriptors() <= before


def test_asking_never_reaches_another_descriptor(tmp_path):
    """Threads ask while the guardian is killed, and new sockets take the numbers of closed ones."""
    for _ in range(15):
        guardian = Guardian(str(tmp_path / "folder"))
        stop = threading.Event()
        wrong: list[object] = []

        def ask(guardian=guardian, stop=stop, wrong=wrong) -> None:
            while not stop.is_set():
                try:
                    guardian.end(12345)
                except GuardianLost:
                    time.sleep(0)
                except BaseException as error:
                    wrong.append(error)
                    return

        askers = [threading.Thread(target=ask) for _ in range(4)]
        for asker in askers:
            asker.start()
        time.sleep(0.02)
        os.kill(guardian.pid, signal.SIGKILL)
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                theirs.setblocking(False)
                for _ in range(20):
                    try:
                        wrong.append(theirs.recv(100))
                    except BlockingIOError:
                        time.sleep(0)
        stop.set()
        for asker in askers:
            asker.join(10)
        assert not wrong
        wait_until(guardian.lost)
        guardian.close()


def test_a_guardian_that_does_not_answer_is_replaced(monkeypatch):
    monkeypatch.setattr(_guardian, "ANSWER", 1.0)
    monkeypatch.setattr(_crew, "KILLED", 1.0)
    with lycaon.Cluster(2) as cluster:
        pids = list(cluster.pids.values())
        stopped = cluster._crew.guardian
        os.kill(stopped.pid, signal.SIGSTOP)
        os.kill(pids[1], signal.SIGKILL)
        with pytest.raises(ClusterError):
            cluster.run(lambda: lycaon.init().barrier())
        wait_until_gone([stopped.pid, *pids], 5)
        assert cluster.run(lambda: lycaon.all_reduce(1).item()) == [2, 2]
        assert cluster._crew.guardian is not stopped


def test_a_channel_is_closed_while_another_thread_sends():
    ours, theirs = socket.socketpair()
    channel, failed = Channel(ours), threading.Event()

    def send() -> None:
        try:
            channel.send("much", data=bytes(100_000_000))
        except OSError:
            failed.set()

    sender = threading.Thread(target=send)
    with theirs:
        sender.start()
        assert theirs.recv(1)  # it has begun, and will find nobody who reads
        channel.close()
        sender.join(5)
        assert failed.is_set()
        with pytest.raises(ConnectionError, match="closed"):
            channel.send("more")
    channel.close()


def test_what_a_rank_has_started_is_not_taken_for_the_rank(tmp_path):
    """A fork in a session of its own holds the rank's end of the channel, and outlives nothing."""
    with lycaon.Cluster(2) as cluster:

        def forks() -> int:
            child = os.fork()
            if child == 0:
                os.setsid()
                time.sleep(300)
            return child

        (fork,) = cluster.run(forks, ranks=[1])
        os.kill(cluster.pids[1], signal.SIGKILL)
        began = time.monotonic()
        for _ in range(2):
            try:
                assert cluster.run(lambda: lycaon.all_reduce(1).item()) == [2, 2]
            except ClusterError:
                continue
        assert time.monotonic() - began < 10
    wait_until_gone([fork], 2)


def test_descriptors_of_a_cluster_are_closed_with_it():
    wait_until(lambda: not threads())
    before = descriptors()
    with lycaon.Cluster(3) as cluster:
        folder = Path(cluster._crew.folder)
        cluster.restart()
        assert cluster.run(lambda: lycaon.init().size()) == [3, 3, 3]
    wait_until(lambda: not threads())
    assert descriptors() <= before and not folder.exists()
