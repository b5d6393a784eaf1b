"""The processes of a cluster: the guardian, the ranks, and one thread for each that listens."""

from __future__ import annotations

import json
import os
import queue
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from lycaon.cluster._wire import Channel, Fields

ANSWER = 15.0
"""Seconds within which the guardian answers, and a rank reads what it is sent."""
HERE = Path(__file__).resolve().parent


class Sink(Protocol):
    """Who hears of what the ranks do, on the thread of the rank."""

    def on_message(self, rank: int, kind: str, fields: Fields) -> None: ...
    def on_text(self, rank: int, stream: str, text: bytes) -> None: ...
    def on_end(self, rank: int, code: int | None) -> None: ...


class GuardianLost(RuntimeError):
    """The process that starts and ends the ranks does not answer, or has ended."""


@dataclass
class Process:
    rank: int
    channel: Channel
    outputs: dict[int, str]
    pid: int = 0
    code: int | None = None
    ended: threading.Event = field(default_factory=threading.Event)
    """The guardian has seen its end. Its output may still be under way."""


class Crew:
    def __init__(self, sink: Sink) -> None:
        # A cluster that nobody holds any more closes: its threads must not be what holds it.
        self._sink = weakref.ref(sink)
        self._owner = os.getpid()
        self.folder = Path(tempfile.mkdtemp(prefix="lycaon-cluster-"))
        self.processes: dict[int, Process] = {}
        self._lock = threading.Lock()
        self._answers: queue.SimpleQueue[Fields] = queue.SimpleQueue()
        self._guard, theirs = socket.socketpair()
        with theirs:
            self._guardian = subprocess.Popen(
                [sys.executable, "-I", "-S", str(HERE / "_guard.py")],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._tell({"folder": str(self.folder)})
        threading.Thread(target=self._hear_guardian, name="lycaon-guardian", daemon=True).start()

    def start(self, rank: int, environment: dict[str, str]) -> Process:
        """Starts the process of a rank. It tells of itself through the sink."""
        ours, theirs = socket.socketpair()
        # A rank that is stopped does not read; whoever sends to it must not wait for ever.
        limit = struct.pack("ll", int(ANSWER), 0)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        command = [sys.executable, "-P", str(HERE / "_start_rank.py")]
        process = Process(rank, Channel(ours), {out: "stdout", err: "stderr"})
        try:
            with self._lock:
                request = {"start": command, "env": environment}
                self._tell(request, [theirs.fileno(), out_end, err_end])
                try:
                    answer = self._answers.get(timeout=ANSWER)
                except queue.Empty:
                    raise GuardianLost("the guardian of the ranks does not answer") from None
                if "started" not in answer:
                    raise GuardianLost(answer.get("refused", "the guardian has ended"))
                process.pid = answer["started"]
                self.processes[rank] = process
        finally:
            theirs.close()
            os.close(out_end)
            os.close(err_end)
        path = [os.path.abspath(entry) for entry in sys.path]
        ours.sendall(json.dumps({"path": path}).encode() + b"\n")
        name = f"lycaon-rank-{rank}"
        threading.Thread(target=listen, args=(self._sink, process), name=name, daemon=True).start()
        return process

    def kill(self, process: Process) -> None:
        self._tell({"kill": process.pid})

    def close(self) -> None:
        """Ends all of it. In a forked child it only lets go."""
        self._guard.close() if os.getpid() != self._owner else self._end()

    def _end(self) -> None:
        try:
            self._guard.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        try:
            self._guardian.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._guardian.kill()
            self._guardian.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _tell(self, request: dict[str, Any], descriptors: list[int] | None = None) -> None:
        line = json.dumps(request).encode() + b"\n"
        try:
            sent = socket.send_fds(self._guard, [line], descriptors or [])
            self._guard.sendall(line[sent:])
        except OSError as error:
            raise GuardianLost(f"the guardian of the ranks has ended: {error}") from None

    def _hear_guardian(self) -> None:
        unread = b""
        while True:
            try:
                data = self._guard.recv(65536)
            except OSError:
                data = b""
            if not data:
                break
            *lines, unread = (unread + data).split(b"\n")
            for line in lines:
                answer = json.loads(line)
                if "ended" not in answer:
                    self._answers.put(answer)
                    continue
                for process in list(self.processes.values()):
                    if process.pid == answer["ended"]:
                        process.code = answer["code"]
                        process.ended.set()
        self._answers.put({})
        for process in list(self.processes.values()):
            process.ended.set()
        self._guard.close()


def listen(sink: weakref.ref[Sink], process: Process) -> None:
    """Passes on what a rank prints and says, in its order, until it ends."""
    rank, channel, outputs = process.rank, process.channel, process.outputs

    def drain() -> None:
        while ready := select.select(list(outputs), [], [], 0)[0]:
            for output in ready:
                read(output)

    def read(output: int) -> None:
        text = os.read(output, 65536)
        if not text:
            outputs.pop(output)
            os.close(output)
        else:
            tell("on_text", rank, "stdout" if output == out else "stderr", text)

    def tell(what: str, *arguments: Any) -> None:
        # Held only meanwhile: a cluster that nobody else holds shall close.
        to = sink()
        if to is not None:
            getattr(to, what)(*arguments)

    (out, _err) = list(outputs)
    alive = True
    while alive:
        ready = select.select([channel.fileno(), *outputs], [], [], None)[0]
        if channel.fileno() not in ready:
            for output in ready:
                read(output)
            continue
        message = channel.receive()
        drain()  # what was printed before the message comes before it
        if message is None:
            alive = False
        else:
            tell("on_message", rank, *message)
    # Its end of the channel is gone, and so, or soon, is the process.
    process.ended.wait(timeout=5)
    drain()
    for output in outputs:
        os.close(output)
    channel.close()
    tell("on_end", rank, process.code)


