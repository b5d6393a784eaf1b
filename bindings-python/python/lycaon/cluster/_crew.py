"""The processes of a cluster: the guardian, the ranks, and one thread for each that listens."""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from lycaon.cluster._errors import ClusterError
from lycaon.cluster._guardian import ANSWER, SWEEP, Guardian, GuardianLost, wait_at_most
from lycaon.cluster._wire import Channel, Fields

HERE = Path(__file__).resolve().parent
GOODBYE = 2.0
"""Seconds between the end of what a rank says and its own end."""
KILLED = 5.0
"""Seconds until a process that gets SIGKILL has ended, on a busy machine."""


class Sink(Protocol):
    """Who hears of what the ranks do, on the thread of the rank."""

    def on_message(self, rank: int, kind: str, fields: Fields) -> None: ...
    def on_text(self, rank: int, stream: str, text: bytes) -> None: ...
    def on_end(self, rank: int, how: str) -> None: ...


class Process:
    """A rank. The thread that listens to it closes its descriptors, and nobody else does."""

    def __init__(self, rank: int, guardian: Guardian) -> None:
        self.rank, self.guardian = rank, guardian
        self.pid = 0
        self.number = -1
        """What the guardian calls it: process ids come again, and this does not."""
        self.how = "ended"
        self.gone = threading.Event()
        """It has ended. Its output may still be under way."""
        self.ended = threading.Event()
        """All that it has said has been passed on, and its end too."""
        ours, theirs = socket.socketpair()
        # A rank that is stopped does not read; whoever sends to it must not wait for ever.
        wait_at_most(ours, ANSWER)
        self.channel = Channel(ours)
        self.out, out = os.pipe()
        self.err, err = os.pipe()
        self.ends = [theirs.detach(), out, err]
        """The other ends, until the guardian has them."""

    def begin(self, environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-P", str(HERE / "_start_rank.py")]
        try:
            self.number, self.pid = self.guardian.start(
                command, environment, self.ends, self.went
            )
            path = [os.path.abspath(entry) for entry in sys.path]
            self.channel.send_line(json.dumps({"path": path}))
        except OSError:
            pass  # it has ended, which the one who listens tells
        except BaseException:
            self.close()
            raise
        finally:
            while self.ends:
                os.close(self.ends.pop())

    def went(self, how: str) -> None:
        self.how = how
        self.gone.set()
        # A process that the rank has forked may hold the other end; it is not waited for.
        self.channel.stop()

    def kill(self) -> None:
        """Returns when it has ended. A guardian that cannot do it ends, with all of its ranks."""
        try:
            self.guardian.end(self.number)
        except GuardianLost:
            pass
        if not self.gone.wait(KILLED):
            self.guardian.kill()
            self.gone.wait(2 * SWEEP)

    def close(self) -> None:
        self.channel.close()
        os.close(self.out)
        os.close(self.err)


class Crew:
    """Starts ranks and ends them. A guardian that was lost is replaced when it is needed."""

    def __init__(self, sink: Sink) -> None:
        # A cluster that nobody holds any more closes: its threads must not be what holds it.
        self._sink = weakref.ref(sink)
        self._owner = os.getpid()
        self._starting = threading.Lock()
        self._closed = False
        self.folder = Path(tempfile.mkdtemp(prefix="lycaon-cluster-"))
        self.processes: dict[int, Process] = {}
        self.guardian = Guardian(str(self.folder))

    def start(self, rank: int, environment: Mapping[str, str]) -> None:
        """Starts the process of a rank. It tells of itself through the sink."""
        with self._starting:
            process = self._started(rank, environment) or self._started(rank, environment)
            if process is None:
                raise GuardianLost("two guardians of the ranks were lost one after the other")
            self.processes[rank] = process
        name = f"lycaon-rank-{rank}"
        threading.Thread(target=listen, args=(self._sink, process), name=name, daemon=True).start()

    def _started(self, rank: int, environment: Mapping[str, str]) -> Process | None:
        """``None`` if the guardian is lost meanwhile."""
        if self._closed:
            raise ClusterError("the cluster is closed")
        if self.guardian.lost():
            self.folder.mkdir(exist_ok=True)
            self.guardian = Guardian(str(self.folder))
        process = Process(rank, self.guardian)
        try:
            process.begin(environment)
        except GuardianLost:
            return None
        return process

    def close(self) -> None:
        """Ends all of it. In a forked child it only lets go."""
        if os.getpid() != self._owner:
            self.guardian.let_go()
            return
        self._closed = True
        self.guardian.close()
        # A start under way has seen the end of its guardian, and no other one begins.
        with self._starting:
            self.guardian.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def listen(sink: weakref.ref[Sink], process: Process) -> None:
    """Passes on what a rank prints and says, in its order, until it ends."""
    rank, channel = process.rank, process.channel
    streams = {process.out: "stdout", process.err: "stderr"}
    poll = select.poll()
    for descriptor in (channel.fileno(), *streams):
        poll.register(descriptor, select.POLLIN)

    def ready(timeout: int | None) -> list[int]:
        return [descriptor for descriptor, _ in poll.poll(timeout)]

    def read(output: int) -> None:
        text = os.read(output, 65536)
        if text:
            tell("on_text", rank, streams[output], text)
        else:
            poll.unregister(output)

    def drain() -> None:
        while printed := [output for output in ready(0) if output in streams]:
            for output in printed:
                read(output)

    def tell(what: str, *arguments: Any) -> None:
        # Held only meanwhile: a cluster that nobody else holds shall close.
        to = sink()
        if to is not None:
            getattr(to, what)(*arguments)

    while True:
        now = ready(None)
        if channel.fileno() not in now:
            for output in now:
                read(output)
            continue
        message = channel.receive()
        drain()  # what was printed before the message comes before it
        if message is None:
            break
        tell("on_message", rank, *message)
    if not process.gone.wait(GOODBYE):
        process.kill()  # nobody can speak to it any more
    drain()
    process.close()
    tell("on_end", rank, process.how)
    process.ended.set()
