"""The guardian as the cluster sees it: who starts the ranks, and who ends what is left without it."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from lycaon.cluster._errors import ClusterError, how_ended

ANSWER = 15.0
"""Seconds within which the guardian answers, and a rank reads what it is sent."""
SWEEP = 3.0
"""Seconds after which a search for what is left is given up."""
MARK = "LYCAON_CLUSTER"
"""The variable by which everything that a rank has started can be told from other processes."""
HERE = Path(__file__).resolve().parent


class GuardianLost(ClusterError):
    """The process that starts and ends the ranks does not answer, or has ended."""


class Guardian:
    """Owns the program and the connection to it.

    Any thread may ask. Only ``_listen`` closes the connection, and never while another thread uses
    it: who touches the descriptor holds the lock and has seen that it is still open.
    """

    def __init__(self, folder: str) -> None:
        # Of this guardian alone: the next one's ranks may start while what is left is looked for.
        self._mark = secrets.token_hex(16)
        # The garbage collector may close a cluster on a thread that is in here.
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._answers: dict[int, Future[int]] = {}
        self._told: dict[int, Callable[[str], None]] = {}
        self._gone: str | None = None
        self._missed = threading.Event()
        """Set with ``_gone``, for who would rather know than try again."""
        self._closing = False
        self._connection, theirs = socket.socketpair()
        wait_at_most(self._connection, ANSWER)
        program = [sys.executable, "-I", "-S", str(HERE / "_guard.py"), str(os.getpid()), folder]
        with theirs:
            self._program = subprocess.Popen(
                program, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True
            )
        self.pid = self._program.pid
        self._thread = threading.Thread(target=self._listen, name="lycaon-guardian", daemon=True)
        self._thread.start()

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        ends: Sequence[int],
        ended: Callable[[str], None],
    ) -> tuple[int, int]:
        """Starts a process with these standard streams. Returns its number and its process id.

        ``ended`` hears how the process has ended, on the thread of the guardian.
        """
        answer: Future[int] = Future()
        with self._lock:
            number = next(self._numbers)
            self._told[number], self._answers[number] = ended, answer
        variables = {**environment, MARK: self._mark}
        request = {"start": number, "command": command, "env": variables}
        try:
            self._tell(request, ends)
            return number, answer.result(ANSWER)
        except TimeoutError:
            # Whatever it still does must not come later.
            self.kill()
            self._missed.wait(SWEEP)
            raise GuardianLost(f"the guardian gave no answer for {ANSWER:g} s") from None

    def end(self, number: int) -> None:
        """Ends a process and its group. The process's ``ended`` tells when that is done."""
        self._tell({"kill": number})

    def kill(self) -> None:
        """For a guardian that does not answer. With it, all that it has started ends."""
        self._program.kill()

    def lost(self) -> bool:
        with self._lock:
            return self._gone is not None

    def close(self) -> None:
        """Ends the guardian, and so everything that it has started. May be repeated."""
        with self._lock:
            self._closing = True
            if self._gone is None:
                shut(self._connection)
        if threading.current_thread() is not self._thread:
            self._thread.join(3 * SWEEP)

    def let_go(self) -> None:
        """In a forked child, whose copy of the connection must not keep it open.

        The child has no other threads, and a lock might be held by one that it does not have.
        """
        self._connection.close()

    def _tell(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        line = json.dumps(request).encode() + b"\n"
        with self._lock:
            if self._gone is not None:
                raise GuardianLost(f"the guardian of the ranks {self._gone}")
            try:
                sent = socket.send_fds(self._connection, [line], list(descriptors))
                self._connection.sendall(line[sent:])
                return
            except OSError as error:
                # It has ended, or does not read. After a part of a line there can be no other.
                shut(self._connection)
                self._program.kill()
                reason = str(error)
        self._missed.wait(SWEEP)
        raise GuardianLost(f"the guardian of the ranks cannot be reached: {reason}")

    # --- on its own thread ---------------------------------------------------------------------

    def _listen(self) -> None:
        unread = b""
        while data := received(self._connection):
            *lines, unread = (unread + data).split(b"\n")
            for line in lines:
                self._hear(json.loads(line))
        try:
            code = self._program.wait(SWEEP)
        except subprocess.TimeoutExpired:
            self._program.kill()
            code = self._program.wait()
        with self._lock:
            self._gone = how_ended(code)
            self._connection.close()
        self._missed.set()
        if code != 0:
            end_marked(self._mark)
        # Nobody can add to them any more.
        for answer in self._answers.values():
            answer.set_exception(GuardianLost(f"the guardian of the ranks {self._gone}"))
        by = "the cluster" if self._closing else f"the guardian of the ranks, which {self._gone}"
        for ended in self._told.values():
            ended(f"was ended with {by}")

    def _hear(self, answer: dict[str, Any]) -> None:
        number = answer["of"]
        with self._lock:
            waiting = self._answers.pop(number, None)
            ended = self._told[number] if "started" in answer else self._told.pop(number)
        if "ended" in answer:
            ended(how_ended(answer["ended"]))
        elif waiting is not None and "started" in answer:
            waiting.set_result(answer["started"])
        elif waiting is not None:
            waiting.set_exception(ClusterError(f"a rank cannot be started: {answer['refused']}"))


def received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except OSError:
        return b""


def shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the other side has gone


def wait_at_most(connection: socket.socket, seconds: float) -> None:
    """Sending into a connection that nobody reads ends with an error."""
    limit = struct.pack("ll", int(seconds), 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def end_marked(mark: str) -> None:
    """Ends the processes whose environment has the mark, where ``/proc`` tells it.

    For the case that the guardian was killed: the ranks end by themselves then, but what they have
    started in sessions of its own is known to nobody else.
    """
    until = time.monotonic() + SWEEP
    while (left := list(marked(mark))) and time.monotonic() < until:
        for pid in left:
            end_if_marked(pid, mark)
        time.sleep(0.01)


def marked(mark: str) -> Iterator[int]:
    me = os.getpid()
    try:
        if os.readlink("/proc/self") != str(me):
            return  # of another PID namespace
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdigit() and int(name) != me and has_mark(int(name), mark):
            yield int(name)


def has_mark(pid: int, mark: str) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False  # it has ended, or is another user's
    return f"{MARK}={mark}".encode() in variables.split(b"\0")


def end_if_marked(pid: int, mark: str) -> None:
    try:
        process = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return  # it has ended
    try:
        # Looked at again: what is open now is what gets the signal, whoever has the number later.
        if has_mark(pid, mark):
            signal.pidfd_send_signal(process, signal.SIGKILL)
    except OSError:
        pass
    finally:
        os.close(process)
