"""Messages between a cluster and its ranks, over a pair of connected sockets.

Nobody can connect to such a pair: it has no name, and only the two processes hold it. What travels
is pickled, with large buffers (arrays) beside the pickle instead of copied into it.
"""

from __future__ import annotations

import importlib
import io
import pickle
import socket
import struct
import threading
import types
from collections import ChainMap
from collections.abc import Callable
from typing import Any

Fields = dict[str, Any]

_HEAD = struct.Struct("!QI")
_SIZE = struct.Struct("!Q")


class Channel:
    """One end. Any thread may send; one thread receives, and it is the one that closes."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._closed = False
        self._state = threading.Lock()  # whoever shuts it down or closes it
        self._sending = threading.Lock()  # whoever sends, and so cannot have it closed meanwhile

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, kind: str, **fields: Any) -> None:
        """Raises ``OSError`` when the other side has gone or does not read."""
        beside: list[pickle.PickleBuffer] = []
        data = pickle.dumps((kind, fields), protocol=5, buffer_callback=beside.append)
        raw = [buffer.raw() for buffer in beside]
        sizes = b"".join(_SIZE.pack(view.nbytes) for view in raw)
        self._send([_HEAD.pack(len(data), len(raw)) + sizes, data, *raw])

    def send_line(self, line: str) -> None:
        """Before the first message: for a reader that knows no messages yet."""
        self._send([line.encode() + b"\n"])

    def _send(self, parts: list[Any]) -> None:
        with self._sending:
            if self._closed:
                raise ConnectionError("the channel is closed")
            try:
                for part in parts:
                    self._end.sendall(part)
            except BaseException:
                # After a part of a message there can be no other.
                self._shut(socket.SHUT_RDWR)
                raise

    def receive(self) -> tuple[str, Fields] | None:
        """The next message, or ``None`` at the end."""
        try:
            length, count = _HEAD.unpack(self._exactly(_HEAD.size))
            sizes = self._exactly(_SIZE.size * count)
            data = self._exactly(length)
            beside = [self._exactly(size) for (size,) in _SIZE.iter_unpack(sizes)]
        except (EOFError, OSError):
            return None
        message: tuple[str, Fields] = pickle.loads(data, buffers=beside)
        return message

    def stop(self) -> None:
        """Receiving ends after what has arrived."""
        self._shut(socket.SHUT_RD)

    def close(self) -> None:
        self._shut(socket.SHUT_RDWR)  # who is sending is not waited for
        with self._sending, self._state:
            self._closed = True
            self._end.close()

    def _shut(self, direction: int) -> None:
        with self._state:
            if not self._closed:
                try:
                    self._end.shutdown(direction)
                except OSError:
                    pass  # the other side has gone

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        at, view = 0, memoryview(data)
        while at < size:
            got = self._end.recv_into(view[at:])
            if got == 0:
                raise EOFError
            at += got
        return data


def pack(value: object) -> Fields:
    """A value as fields of a message. Functions need cloudpickle, unless they can be imported."""
    beside: list[pickle.PickleBuffer] = []
    data = dumps(value, beside.append)
    try:
        for buffer in beside:
            buffer.raw()
    except BufferError:  # memory that is not contiguous cannot lie beside the pickle
        beside = []
        data = dumps(value, None)
    return {"payload": data, "beside": beside}


def unpack(fields: Fields) -> Any:
    return pickle.loads(fields["payload"], buffers=fields["beside"])


def dumps(value: object, beside: Callable[[pickle.PickleBuffer], Any] | None) -> bytes:
    try:
        cloudpickle: Any = importlib.import_module("cloudpickle")
    except ImportError:
        return pickle.dumps(value, protocol=5, buffer_callback=beside)

    plain = cloudpickle.Pickler.dispatch_table
    reduce_code = plain.get(types.CodeType)

    def reduce_with_place(code: types.CodeType) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return with_place, (code.co_filename, *reduce_code(code))

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        # cloudpickle forgets where code was written, and tracebacks could not show its lines.
        dispatch_table = ChainMap({types.CodeType: reduce_with_place}, plain)

    into = io.BytesIO()
    (Pickler if reduce_code else cloudpickle.Pickler)(into, 5, beside).dump(value)
    return into.getvalue()


def with_place(place: str, make: Callable[..., types.CodeType], arguments: Any) -> types.CodeType:
    return make(*arguments).replace(co_filename=place)
