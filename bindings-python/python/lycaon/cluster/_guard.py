"""The guardian of a cluster: a process that starts the ranks and ends them when its owner has gone.

It is run as a program of its own, with nothing of lycaon, and does nothing but wait: however busy
the ranks or their owner are, and in whatever way the owner ends (SIGKILL included), the guardian
notices at once and ends the ranks with everything that they have started. If it is itself what is
killed, the ranks see the end of a pipe that it held and end themselves with their process groups,
and the owner looks for the rest. Its standard input is a socket to the owner: requests and answers
are lines of JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

LIMIT = 1.5
"""Seconds after which the guardian goes, though the kernel has not ended every process yet."""
DEATH_SIGNAL, SUBREAPER = 1, 36  # options of prctl(2)


def main() -> None:
    owner, folder = int(sys.argv[1]), sys.argv[2]
    # Handlers, not SIG_IGN: the ranks must not inherit it. Nor what the owner had blocked.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    guardian = Guardian(socket.socket(fileno=os.dup(0)), folder)
    try:
        guardian.serve(owner)
    finally:
        signal.set_wakeup_fd(-1)
        guardian.end()


class Guardian:
    def __init__(self, owner: socket.socket, folder: str) -> None:
        self.owner = owner
        self.folder = folder
        self.pid = os.getpid()
        self.ranks: dict[int, int] = {}
        """The number of each process, by its process id. Each leads its process group."""
        self.wake = socket.socketpair()
        # Every rank has the one end, and this process alone the other: whatever ends it closes it.
        self.lifeline, self.life = os.pipe()
        self.prctl: Callable[..., int] | None = None
        if sys.platform == "linux":
            self.prctl = ctypes.CDLL(None).prctl
            # Processes whose parents have gone become children of this one, not of init.
            self.prctl(SUBREAPER, 1, 0, 0, 0)

    def serve(self, owner: int) -> None:
        """Until the owner closes the connection, ends, or asks for the end."""
        woken, wake = self.wake
        woken.setblocking(False)
        wake.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        waiting: list[Any] = [self.owner, woken]
        # A process that the owner forked holds the connection too, so its end is not enough.
        try:
            waiting.append(os.pidfd_open(owner))
            pause: float | None = None
        except (AttributeError, OSError):
            pause = 0.25
        unread = b""
        handed: list[int] = []
        while os.getppid() == owner:
            ready, _, _ = select.select(waiting, [], [], pause)
            if woken in ready:
                try:
                    woken.recv(4096)
                except BlockingIOError:
                    pass
                self.reap()
            if self.owner in ready:
                try:
                    data, descriptors, _, _ = socket.recv_fds(self.owner, 65536, 3)
                except ConnectionError:  # the owner went with answers unread
                    return
                if not data:
                    return
                handed += descriptors
                *lines, unread = (unread + data).split(b"\n")
                for line in lines:
                    request = json.loads(line)
                    if "start" in request:
                        self.start(request, [handed.pop(0) for _ in range(3)])
                    else:
                        self.kill(request["kill"])

    def start(self, request: dict[str, Any], ends: list[int]) -> None:
        number = request["start"]
        try:
            process = subprocess.Popen(
                [*request["command"], str(self.lifeline)],
                stdin=ends[0],
                stdout=ends[1],
                stderr=ends[2],
                env=request["env"],
                pass_fds=[self.lifeline],
                start_new_session=True,
                preexec_fn=self.die_with_guardian,
            )
        except (OSError, subprocess.SubprocessError) as error:
            self.answer({"of": number, "refused": str(error)})
            return
        finally:
            for descriptor in ends:
                os.close(descriptor)
        self.ranks[process.pid] = number
        process.returncode = 0  # it is `reap` that waits for it
        self.answer({"of": number, "started": process.pid})

    def kill(self, number: int) -> None:
        for pid in [pid for pid, other in self.ranks.items() if other == number]:
            self.kill_group(pid)

    def die_with_guardian(self) -> None:
        """In the child, for the time until it watches the lifeline itself."""
        if self.prctl is not None:
            self.prctl(DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != self.pid:
            os._exit(1)  # it was too late

    def answer(self, answer: dict[str, Any]) -> None:
        try:
            self.owner.sendall(json.dumps(answer).encode() + b"\n")
        except OSError:
            pass  # the owner has gone; the loop sees it next

    def reap(self) -> bool:
        """Takes note of the processes that have ended. False if there are no more children."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return False
            if ended is None:
                return True
            pid = ended.si_pid
            number = self.ranks.pop(pid, None)
            # Before it is reaped: until then the number cannot be that of another process.
            if number is not None:
                self.kill_group(pid)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if number is not None:
                self.answer({"of": number, "ended": code})

    def end(self) -> None:
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            for group in self.ranks:
                self.kill_group(group)
            for pid in adopted():
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            if not self.reap():
                break
            time.sleep(0.01)
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill_group(self, group: int) -> None:
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            pass  # all of it has ended


def adopted() -> list[int]:
    """The children of this process, where ``/proc`` says so."""
    me = str(os.getpid())
    try:
        if os.readlink("/proc/self") != me:
            return []  # of another PID namespace
        processes = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    children = []
    for name in processes:
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                parent = stat.read().rpartition(b")")[2].split()[1].decode()
        except (OSError, IndexError):
            continue
        if parent == me:
            children.append(int(name))
    return children


if __name__ == "__main__":
    main()
