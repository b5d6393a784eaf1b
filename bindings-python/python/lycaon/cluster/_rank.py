"""A rank of a cluster: runs what the notebook asks for, on its main thread."""

from __future__ import annotations

import importlib
import linecache
import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterable
from typing import Any

import lycaon
from lycaon import _functions, _lycaon
from lycaon.cluster import _track
from lycaon.cluster._wire import Channel, Fields, pack, unpack

HERE = os.path.dirname(os.path.abspath(__file__))


class Rank:
    def __init__(self, end: socket.socket, setup: Fields) -> None:
        self.channel = Channel(end)
        self.setup = setup
        self.calls: queue.SimpleQueue[tuple[str, Fields]] = queue.SimpleQueue()
        self.running: int | None = None
        self.interrupting: int | None = None
        self.group: lycaon.Group | None = None
        self.shell: Any = None
        # What the user's code runs in, in place of this program.
        self.module = types.ModuleType("__main__")
        self.module.__dict__["__builtins__"] = __builtins__
        sys.modules["__main__"] = self.module
        self.namespace = self.module.__dict__

    def serve(self) -> None:
        signal.signal(signal.SIGINT, self.on_interrupt)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, types.ModuleType) or not hasattr(stream, "reconfigure"):
                continue
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
        threading.Thread(target=self.listen, name="lycaon-cluster", daemon=True).start()
        while True:
            kind, fields = self.calls.get()
            self.answer(kind, fields)

    # --- the thread that listens ---------------------------------------------------------------

    def listen(self) -> None:
        while (message := self.channel.receive()) is not None:
            kind, fields = message
            if kind == "interrupt":
                self.interrupting = fields["call"]
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            elif kind == "give_up":
                # Others wait for this rank in an operation that it will not join.
                if self.running is None:
                    _lycaon._close_all()
            elif kind == "status":
                self.channel.send("status", call=fields["call"], **self.status())
            else:
                self.calls.put((kind, fields))
        # The notebook has gone, and what this rank has started shall not stay either. The guardian
        # ends it too, unless that has gone as well.
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os._exit(1)

    def status(self) -> Fields:
        operations = moved = 0
        group = self.group
        if group is not None:
            progress = group.progress()
            operations, moved = progress.completed, progress.bytes_sent
        return {"operations": operations, "moved": moved, "track": _track.current()}

    def on_interrupt(self, _number: int, _frame: object) -> None:
        if self.running is not None and self.running == self.interrupting:
            self.interrupting = None
            raise KeyboardInterrupt

    # --- the main thread -----------------------------------------------------------------------

    def answer(self, kind: str, fields: Fields) -> None:
        call = fields["call"]
        action: Callable[[Fields], Any] = getattr(self, f"do_{kind}")
        reply: Fields
        try:
            try:
                self.running = call
                if self.interrupting == call:  # it was interrupted while it waited for its turn
                    raise KeyboardInterrupt
                for name, lines in fields.get("sources", {}).items():
                    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
                reply = action(fields)
                self.running = None
            except BaseException as error:
                self.running = None
                reply = failure(error)
        except KeyboardInterrupt as error:  # it came between the two lines
            self.running = None
            reply = failure(error)
        _track.clear()
        flush()
        self.channel.send("done", call=call, **reply)

    def do_form(self, fields: Fields) -> Fields:
        """Joins a new group, in place of one that has failed."""
        _lycaon._close_all()
        vars(_functions)["_first"] = None  # also if it had failed before it was closed
        os.environ.update(fields["environment"])
        self.group = _functions.init()
        self.namespace.update(
            lycaon=lycaon, group=self.group, rank=self.group.rank(), size=self.group.size()
        )
        return {}

    def do_probe(self, fields: Fields) -> Fields:
        """Whether all ranks are at the same place of the group's order."""
        if self.group is None:
            raise RuntimeError("this rank has no group")
        before = self.group.timeout
        self.group.timeout = fields["timeout"]
        try:
            self.group.barrier()
        finally:
            self.group.timeout = before
        return {}

    def do_shell(self, _fields: Fields) -> Fields:
        """Before the first cell, since it takes a while to import."""
        if self.shell is None:
            shell = importlib.import_module("lycaon.cluster._shell")
            self.shell = shell.make(self.module, self.show)
        return {}

    def do_run(self, fields: Fields) -> Fields:
        function, arguments, named = unpack(fields)
        result = run_in(self.namespace, function, arguments, named)
        if self.shell is not None:
            self.shell.events.trigger("post_execute")  # shows the plots that are left
        return self.packed(result)

    def do_cell(self, fields: Fields) -> Fields:
        self.do_shell(fields)
        outcome = self.shell.run_cell(fields["source"], store_history=False)
        error = outcome.error_before_exec or outcome.error_in_exec
        if error is None:
            return {}
        shown = self.shell.shown
        return failure(error) | {"shown": shown or None}

    def do_push(self, fields: Fields) -> Fields:
        self.namespace.update(unpack(fields))
        return {}

    def do_pull(self, fields: Fields) -> Fields:
        missing = [name for name in fields["names"] if name not in self.namespace]
        if missing:
            raise NameError(f"name {missing[0]!r} is not defined on this rank", name=missing[0])
        return self.packed([self.namespace[name] for name in fields["names"]])

    def packed(self, value: object) -> Fields:
        try:
            return pack(value)
        except Exception as error:
            kind = type(value).__name__
            raise TypeError(f"the result (of type {kind}) cannot be sent: {error}") from error

    def show(self, data: Fields, metadata: Fields, **how: Any) -> None:
        flush()
        self.channel.send("show", data=data, metadata=metadata, **how)


def run_in(
    namespace: Fields, function: Callable[..., Any], arguments: Iterable[Any], named: Fields
) -> Any:
    """Calls a function that has travelled. Global names that did not come with it are those of
    the rank, and what it assigns to global names stays there."""
    globals_ = getattr(function, "__globals__", None)
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if globals_ is None or (module is not None and vars(module) is globals_):
        return function(*arguments, **named)  # it is one of an imported module
    for name, value in namespace.items():
        if not name.startswith("__"):
            globals_.setdefault(name, value)
    before = dict(globals_)
    try:
        return function(*arguments, **named)
    finally:
        for name, value in globals_.items():
            if not name.startswith("__") and before.get(name, before) is not value:
                namespace[name] = value


def failure(error: BaseException) -> Fields:
    """All that the notebook needs to show it; the exception itself only if it can travel."""
    trimmed = error.__traceback__
    while trimmed is not None and trimmed.tb_frame.f_code.co_filename.startswith(HERE):
        trimmed = trimmed.tb_next
    text = "".join(traceback.format_exception(type(error), error, trimmed))
    exception: Fields | None
    try:
        exception = pack(error)
        unpack(exception)
    except Exception:
        exception = None
    return {
        "error": {
            "name": type(error).__name__,
            "message": str(error),
            "traceback": text,
            "kind": getattr(error, "kind", None) if isinstance(error, lycaon.Error) else None,
            "interrupted": isinstance(error, KeyboardInterrupt),
            "at": time.monotonic(),
        },
        "exception": exception,
    }


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
