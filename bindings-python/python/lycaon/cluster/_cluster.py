"""Ranks that live beside a notebook or a script."""

from __future__ import annotations

import asyncio
import atexit
import linecache
import os
import secrets
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from pathlib import Path
from typing import Any, TypeVar

from lycaon import _functions
from lycaon._lycaon import Config, Group
from lycaon.cluster._call import Call
from lycaon.cluster._crew import Crew
from lycaon.cluster._errors import ClusterError, named
from lycaon.cluster._progress import Bar
from lycaon.cluster._rank import failure
from lycaon.cluster._show import Screen, shell
from lycaon.cluster._wire import Fields, pack

_T = TypeVar("_T")

LAUNCHERS = ("MLX_", "JACCL_", "OMPI_", "PMI", "SLURM_", "TORCHELASTIC_")
PLACES = {
    *("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    *("LYCAON_RANK", "LYCAON_SIZE", "LYCAON_RENDEZVOUS", "LYCAON_TOKEN", "LYCAON_JOB"),
}
"""Variables that would give a rank another place than its cluster does."""
PROBE = 5.0
"""Seconds within which ranks that all live and do nothing else meet in a barrier."""
PATIENCE = 5.0
"""Seconds after which a rank that an interruption does not reach is killed."""

_latest: weakref.ref[Cluster] | None = None


class Cluster:
    """``n`` ranks on this machine, which live until the cluster is closed.

    They start in the background; the first call, ``with`` or ``await`` waits for them. With
    ``join=True`` this process is rank 0, and ``group`` its group. ``env`` adds to the environment
    of the ranks. ``start_timeout`` bounds the start, in seconds.
    """

    def __init__(
        self,
        n: int,
        *,
        join: bool = False,
        env: Mapping[str, str] | None = None,
        start_timeout: float = 60.0,
    ) -> None:
        if n < 1:
            raise ValueError(f"a cluster has at least one rank, not {n}")
        self.size = n
        self._joined = join
        self._others = list(range(1 if join else 0, n))
        self._start_timeout = start_timeout
        self._environment = {**environment(n), **(env or {})}
        self._group: Group | None = None
        self._calls: dict[int, Call[Any]] = {}
        self._number = 0
        self._lock = threading.RLock()
        self._suspect = False
        self._closed = False
        self._screen = Screen()
        self._sent: dict[int, set[str]] = {}
        self._interrupted: set[int] = set()
        self._crew = Crew(self)
        # Also at exit, and when nobody holds the cluster any more.
        self._finalizer = weakref.finalize(self, self._crew.close)
        self._started: Future[None] = Future()
        threading.Thread(target=self._start, name="lycaon-start", daemon=True).start()
        global _latest
        _latest = weakref.ref(self)

    # --- its life ------------------------------------------------------------------------------

    def __enter__(self) -> Cluster:
        try:
            self._ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    async def __aenter__(self) -> Cluster:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_exception: object) -> None:
        await asyncio.to_thread(self.close)

    def __await__(self) -> Generator[Any, None, Cluster]:
        return self.__aenter__().__await__()

    def close(self) -> None:
        """Ends the ranks, whatever they do. Calls under way fail. May be repeated."""
        self._closed = True
        if self._group is not None and os.getpid() == self._crew._owner:
            self._group.close()
        self._finalizer()
        for rank in self._others:
            for call in self._of_rank(rank):
                call.end_of_rank(rank, "was ended with the cluster")

    def restart(self) -> None:
        """Ends the ranks and starts new ones, which know nothing of what the old ones had."""
        self._check_open()
        for rank in self._others:
            self._kill(rank)
        self._mend()

    def __repr__(self) -> str:
        if self._closed:
            state = "closed"
        elif not self._started.done():
            state = "starting"
        elif self._started.exception() is not None:
            state = "failed to start"
        else:
            busy = sorted({rank for call in list(self._calls.values()) for rank in call.pending})
            state = f"{named(busy)} busy" if busy else "idle"
        return f"<lycaon.Cluster of {self.size}: {state}>"

    @property
    def group(self) -> Group:
        """The group of this process, which is rank 0 of a cluster with ``join=True``.

        A group that has failed is replaced: take it from here again instead of keeping it.
        """
        if not self._joined:
            raise ClusterError("this process is not a rank; use Cluster(n, join=True)")
        self._ready()
        assert self._group is not None
        return self._group

    @property
    def pids(self) -> dict[int, int]:
        """The process of each rank."""
        self._ready()
        return {rank: process.pid for rank, process in sorted(self._crew.processes.items())}

    # --- what it does --------------------------------------------------------------------------

    def run(
        self,
        function: Callable[..., _T],
        /,
        *arguments: Any,
        ranks: Iterable[int] | None = None,
        timeout: float | None = None,
        **named_arguments: Any,
    ) -> list[_T]:
        """Runs a function on every rank, or on ``ranks``, and returns the results in their order.

        Functions and closures of the notebook travel by cloudpickle, with the values of the global
        names that they use. Global names that the notebook does not have are those of the rank:
        what ``push``, cells and earlier functions (``global``) left there, and ``group``, ``rank``
        and ``size``. Raises ``RankError``; after ``timeout`` seconds it interrupts the ranks and
        raises ``TimeoutError``. An interruption reaches the ranks too.
        """
        chosen = self._chosen(ranks)
        fields = packed_call(function, arguments, named_arguments)

        def here() -> Fields:
            return {"value": function(*arguments, **named_arguments)}

        return self._run("run", fields, chosen, here, timeout)

    def run_async(
        self,
        function: Callable[..., _T],
        /,
        *arguments: Any,
        ranks: Iterable[int] | None = None,
        **named_arguments: Any,
    ) -> Call[_T]:
        """As ``run``, but returns at once; ``await`` the call or ask for its ``result()``.

        Of a cluster with ``join=True`` it runs on the other ranks, so that this process can take
        part by ``group``.
        """
        chosen = self._others if ranks is None else self._chosen(ranks)
        if self._joined and 0 in chosen:
            raise ValueError("rank 0 is this process, which cannot run a call in the background")
        fields = packed_call(function, arguments, named_arguments)
        self._ready()
        return self._submit("run", fields, chosen)

    def execute(
        self, source: str, *, ranks: Iterable[int] | None = None, timeout: float | None = None
    ) -> None:
        """Runs the text of a cell on the ranks, as ``%%lycaon`` does. Needs IPython."""
        chosen = self._chosen(ranks)

        def here() -> Fields:
            ipython = shell()
            if ipython is None:
                raise ClusterError("the notebook's own part of a cell needs IPython")
            rank = {"group": self._group, "rank": 0, "size": self.size}
            ipython.user_ns.update(rank)
            outcome = ipython.run_cell(source, store_history=False)
            error = outcome.error_before_exec or outcome.error_in_exec
            if error is not None:
                raise error
            return {}

        self._run("cell", {"source": source}, chosen, here, timeout)

    def push(
        self,
        values: Mapping[str, Any] | None = None,
        /,
        *,
        ranks: Iterable[int] | None = None,
        **named_values: Any,
    ) -> None:
        """Sets global names on the ranks: ``c.push(x=1)`` or ``c.push({"x": 1})``."""
        wanted = {**(values or {}), **named_values}

        def here() -> Fields:
            sys.modules["__main__"].__dict__.update(wanted)
            return {}

        self._run("push", pack(wanted), self._chosen(ranks), here, None)

    def pull(self, *names: str, ranks: Iterable[int] | None = None) -> list[Any]:
        """The value of a global name on each rank; of several names, lists of values."""
        if not names:
            raise TypeError("pull needs the name of a variable")

        def here() -> Fields:
            there = sys.modules["__main__"].__dict__
            return {"value": [there[name] for name in names]}

        values = self._run("pull", {"names": names}, self._chosen(ranks), here, None)
        return [value[0] for value in values] if len(names) == 1 else values

    # --- calls ---------------------------------------------------------------------------------

    def _run(
        self,
        kind: str,
        fields: Fields,
        ranks: list[int],
        here: Callable[[], Fields],
        timeout: float | None,
    ) -> list[Any]:
        self._ready()
        call = self._submit(kind, fields, ranks)
        try:
            if self._joined and 0 in ranks:
                try:
                    call.settle(0, here())
                except KeyboardInterrupt:
                    call.settle(0, failure(KeyboardInterrupt()))
                    raise
                except BaseException as error:
                    call.settle(0, failure(error))
            self._wait(call, timeout)
        except KeyboardInterrupt:
            self._stop(call)
            raise
        except TimeoutError:
            self._stop(call)
            text = f"{named(ranks)} had not ended after {timeout:g} s, and were interrupted"
            raise TimeoutError(text) from None
        finally:
            if call.failed and not self._closed:
                self._mend()
        return call.result(0)

    def _wait(self, call: Call[Any], timeout: float | None) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        with Bar(call, self._ask) as bar:
            while not call._future.done():
                pause = bar.pause()
                if until is not None:
                    if time.monotonic() >= until:
                        raise TimeoutError
                    pause = min(pause, max(0.0, until - time.monotonic()))
                try:
                    call._future.exception(timeout=pause)
                except TimeoutError:
                    bar.update()

    def _stop(self, call: Call[Any]) -> None:
        """Interrupts what still runs. Ranks that do not react, or a second interruption, end it."""
        self._interrupt(call)
        try:
            call._future.exception(timeout=PATIENCE)
        except (KeyboardInterrupt, TimeoutError):
            stuck = call.pending
            self._screen.say(f"{named(stuck)} did not react and had to be killed")
            for rank in stuck:
                self._kill(rank)
            try:
                call._future.exception(timeout=PATIENCE)
            except TimeoutError:
                pass

    def _submit(self, kind: str, fields: Fields, ranks: list[int]) -> Call[Any]:
        with self._lock:
            self._check_open()
            self._number += 1
            number, give_up = self._number, self._give_up
            call: Call[Any] = Call(
                number, ranks, self.size, self._finished, give_up, self._interrupt
            )
            self._calls[number] = call
        for rank in ranks:
            if self._joined and rank == 0:
                continue
            fields_here = {**fields, "sources": self._sources(rank)}
            process = self._crew.processes.get(rank)
            try:
                if process is None:
                    raise OSError("it has no process")
                process.channel.send(kind, call=number, **fields_here)
            except OSError:
                self._kill(rank)
                call.end_of_rank(rank, self._how(rank))
        return call

    def _finished(self, call: Call[Any]) -> None:
        with self._lock:
            self._calls.pop(call.number, None)
            self._suspect = self._suspect or bool(call.failed)
        for rank in call.ranks:
            call.context.copy().run(self._screen.finish, rank)

    def _interrupt(self, call: Call[Any]) -> None:
        for rank in call.pending:
            self._send(rank, "interrupt", call=call.number)

    def _give_up(self, ranks: list[int]) -> None:
        for rank in ranks:
            if self._joined and rank == 0:
                if self._group is not None:
                    self._group.close()
            else:
                self._send(rank, "give_up")

    def _ask(self, call: Call[Any]) -> None:
        for rank in call.pending:
            self._send(rank, "status", call=call.number)

    def _send(self, rank: int, kind: str, **fields: Any) -> None:
        process = self._crew.processes.get(rank)
        if process is not None:
            try:
                process.channel.send(kind, **fields)
            except OSError:
                pass  # it has ended, which its thread tells

    def _kill(self, rank: int) -> None:
        process = self._crew.processes.get(rank)
        if process is not None and not process.ended.is_set():
            process.kill()
            process.ended.wait(timeout=PATIENCE)  # what it still had to say

    def _chosen(self, ranks: Iterable[int] | None) -> list[int]:
        if ranks is None:
            return list(range(self.size))
        chosen = list(dict.fromkeys(ranks))
        for rank in chosen:
            if not 0 <= rank < self.size:
                raise ValueError(f"there is no rank {rank}: the cluster has {self.size}")
        if not chosen:
            raise ValueError("no ranks are chosen")
        return chosen

    def _sources(self, rank: int) -> dict[str, list[str]]:
        """Cells that this rank has not seen: its tracebacks can then show their lines."""
        sent = self._sent.setdefault(rank, set())
        new = {}
        for name, entry in list(linecache.cache.items()):
            if len(entry) == 4 and entry[1] is None and name not in sent:
                sent.add(name)
                new[name] = entry[2]
        return new

    def _of_rank(self, rank: int) -> list[Call[Any]]:
        return [call for call in list(self._calls.values()) if rank in call.pending]

    # --- what the ranks say, on their threads --------------------------------------------------

    def on_message(self, rank: int, kind: str, fields: Fields) -> None:
        call = self._calls.get(fields["call"]) if "call" in fields else None
        if kind == "done":
            if call is not None:
                call.settle(rank, fields)
        elif kind == "status":
            if call is not None:
                call.status[rank] = fields
        elif kind == "show":
            self._in_cell_of(rank, self._screen.display, rank, fields)

    def on_text(self, rank: int, stream: str, text: bytes) -> None:
        self._in_cell_of(rank, self._screen.text, rank, stream, text)

    def on_end(self, rank: int, how: str) -> None:
        self._screen.finish(rank)
        self._suspect = True
        for call in self._of_rank(rank):
            call.end_of_rank(rank, how)

    def _in_cell_of(self, rank: int, show: Callable[..., None], *arguments: Any) -> None:
        """Output belongs to the cell that made the call, also if another one runs now."""
        calls = self._of_rank(rank)
        if calls:
            calls[0].context.copy().run(show, *arguments)
        else:
            show(*arguments)

    # --- starting, and starting again ----------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise ClusterError("the cluster is closed")

    def _ready(self) -> None:
        """Waits for the start, and puts right what an earlier call has broken."""
        self._check_open()
        try:
            self._started.result(timeout=self._start_timeout + PATIENCE)
        except TimeoutError:
            raise ClusterError(f"no start within {self._start_timeout:g} s") from None
        if self._suspect:
            self._mend()

    def _start(self) -> None:
        try:
            self._start_processes(self._others)
            self._form()
            if shell() is not None:
                self._submit("shell", {}, self._others)
        except BaseException as error:
            self._started.set_exception(error)
        else:
            self._started.set_result(None)

    def _start_processes(self, ranks: list[int]) -> None:
        for rank in ranks:
            self._sent.pop(rank, None)
            self._crew.start(rank, self._environment)

    def _form(self) -> None:
        """All ranks join a new group."""
        job, token = f"cluster-{secrets.token_hex(4)}", secrets.token_hex(32)
        meeting = Path(self._crew.folder) / job
        calls = []
        for rank in self._others:
            variables = {
                "LYCAON_RANK": str(rank),
                "LYCAON_SIZE": str(self.size),
                "LYCAON_RENDEZVOUS": f"file:{meeting}",
                "LYCAON_TOKEN": token,
                "LYCAON_JOB": job,
                "LYCAON_START_TIMEOUT": f"{self._start_timeout:g}s",
            }
            calls.append(self._submit("form", {"environment": variables}, [rank]))
        if self._joined:
            if self._group is not None:
                self._group.close()
            config = Config.from_env(
                rank=0,
                size=self.size,
                rendezvous=f"file:{meeting}",
                token=token,
                job=job,
                start_timeout=self._start_timeout,
            )
            self._group = _functions.init(config)
            # `lycaon.init()` and the functions without `group` mean it, as on the other ranks.
            vars(_functions)["_first"] = self._group
        wait([call._future for call in calls], self._start_timeout + PATIENCE, FIRST_EXCEPTION)
        failed = [call for call in calls if call.failed]
        for call in calls:
            if not call.done():
                self._stop(call)  # it would wait for the one that failed
        for call in [*failed, *calls]:
            if not call.done():
                raise ClusterError(f"{named(call.pending)} cannot be ended")
            call.result(0)

    def _mend(self) -> None:
        """After a failure: keeps the group if it is whole, else forms a new one, and says so."""
        busy = [rank for call in list(self._calls.values()) for rank in call.pending]
        if busy:
            raise ClusterError(
                f"a call has failed, and {named(sorted(set(busy)))} still run another one: wait "
                f"for it or interrupt it, then the group can be put right"
            )
        replaced: list[int] = []
        while True:
            gone = [rank for rank in self._others if self._has_gone(rank)]
            if not gone and not replaced and self._is_whole():
                self._suspect = False
                return
            for rank in gone:
                text = f"rank {rank} {self._how(rank)}"
                self._screen.say(f"{text}; it is started anew, without its variables")
            replaced += gone
            try:
                self._start_processes(gone)
                self._form()
                break
            except ClusterError:
                # Perhaps because others have ended meanwhile. A rank is replaced once.
                lost = [rank for rank in self._others if self._has_gone(rank)]
                if not lost or set(lost) & set(replaced):
                    raise
        self._suspect = False
        kept = "" if len(replaced) == len(self._others) else "; variables of the ranks are kept"
        self._screen.say(f"the group was lost, and all ranks are in a new one{kept}")
        if shell() is not None and replaced:
            self._submit("shell", {}, replaced)

    def _how(self, rank: int) -> str:
        process = self._crew.processes.get(rank)
        return "has not started" if process is None else process.how

    def _has_gone(self, rank: int) -> bool:
        process = self._crew.processes.get(rank)
        if process is None:
            return True
        # Its last words come before the first ones of the next.
        return process.gone.is_set() and process.ended.wait(timeout=PATIENCE)

    def _is_whole(self) -> bool:
        """Whether all ranks are at the same place of the group's order."""
        call = self._submit("probe", {"timeout": PROBE}, self._others)
        group = self._group
        whole = True
        if group is not None:
            try:
                before = group.timeout
                group.timeout = PROBE
                group.barrier()
                group.timeout = before
            except Exception:
                whole = False
        try:
            error = call._future.exception(timeout=2 * PROBE)
        except TimeoutError:
            self._stop(call)
            return False
        return whole and error is None


def packed_call(function: object, arguments: object, named_arguments: object) -> Fields:
    try:
        return pack((function, arguments, named_arguments))
    except Exception as error:
        if sys.modules.get("cloudpickle") is None:
            hint = "functions of a notebook or script travel by cloudpickle: pip install cloudpickle"
            raise ClusterError(f"{hint} ({error})") from error
        raise ClusterError(f"this cannot be sent to the ranks: {error}") from error


def environment(size: int) -> dict[str, str]:
    """What the ranks inherit: no place in another job, and their share of the cores."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(LAUNCHERS) and name not in PLACES
    }
    if size > 1:
        kept.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // size)))
    return kept


def latest() -> Cluster | None:
    """The cluster that was made last, if it is still open."""
    cluster = None if _latest is None else _latest()
    return None if cluster is None or cluster._closed else cluster


def run(
    function: Callable[..., _T],
    /,
    *arguments: Any,
    n: int = 2,
    timeout: float | None = None,
    **named_arguments: Any,
) -> list[_T]:
    """Runs a function on ``n`` new ranks and returns their results: for scripts and tests."""
    with Cluster(n) as cluster:
        return cluster.run(function, *arguments, timeout=timeout, **named_arguments)


@atexit.register
def _close_latest() -> None:
    cluster = latest()
    if cluster is not None:
        cluster.close()
