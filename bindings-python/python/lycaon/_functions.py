"""The operations as functions, on the group that the environment describes unless another is given.

The types are in ``_functions.pyi``. ``stream`` is there for programs written for ``mx.distributed``
and has no effect.
"""

import threading

from lycaon._lycaon import _init

_first = None
_lock = threading.RLock()


def init(config=None, *, strict=True, backend="any"):
    """Starts the group that ``config``, or without one the environment, describes.

    Without ``config`` the group is started once: later calls return the same one until it is
    closed. Without any launch variable it has one rank, for which every operation works. ``strict``
    and ``backend`` are there for programs written for ``mx.distributed``: a start never falls back
    to a group of one by itself, and links are chosen by ``LYCAON_LINKS`` or ``Config(links=...)``.
    """
    if config is not None:
        return _init(config)
    if not is_available(backend):
        raise ValueError(f"backend {backend!r} is not known; leave it out, or choose links")
    global _first
    with _lock:
        if _first is None or _first._is_closed():
            _first = _init()
        return _first


def is_available(backend="any"):
    """Whether groups can be started, which is always so. A name other than ``any`` is that of an
    ``mx.distributed`` backend, none of which this is."""
    return backend in ("any", "lycaon")


def _of(group):
    return init() if group is None else group


def split(color, key=0, *, group=None):
    """Forms sub-groups: ranks of one ``color`` form one, ordered by ``key`` and then by rank."""
    return _of(group).split(color, key)


def barrier(*, group=None):
    """Returns when every rank has called it."""
    return _of(group).barrier()


def barrier_async(*, group=None):
    """As ``barrier``, in the background."""
    return _of(group).barrier_async()


def all_reduce(x, op="sum", *, out=None, in_place=False, group=None):
    """Reduces ``x`` of all ranks; every rank gets the result."""
    return _of(group).all_reduce(x, op, out=out, in_place=in_place)


def all_reduce_async(x, op="sum", *, out=None, in_place=False, group=None):
    """As ``all_reduce``, in the background."""
    return _of(group).all_reduce_async(x, op, out=out, in_place=in_place)


def all_gather(x, *, out=None, in_place=False, group=None, stream=None):
    """Joins ``x`` of all ranks on axis 0, in rank order."""
    return _of(group).all_gather(x, out=out, in_place=in_place)


def all_gather_async(x, *, out=None, in_place=False, group=None, stream=None):
    """As ``all_gather``, in the background."""
    return _of(group).all_gather_async(x, out=out, in_place=in_place)


def all_gather_v(x, counts, *, out=None, group=None):
    """Joins ``x`` of all ranks on axis 0, where rank ``i`` gives ``counts[i]`` rows."""
    return _of(group).all_gather_v(x, counts, out=out)


def all_gather_v_async(x, counts, *, out=None, group=None):
    """As ``all_gather_v``, in the background."""
    return _of(group).all_gather_v_async(x, counts, out=out)


def reduce_scatter(x, op="sum", *, out=None, group=None):
    """Reduces ``x`` of all ranks; each rank gets its equal part of axis 0 of the result."""
    return _of(group).reduce_scatter(x, op, out=out)


def reduce_scatter_async(x, op="sum", *, out=None, group=None):
    """As ``reduce_scatter``, in the background."""
    return _of(group).reduce_scatter_async(x, op, out=out)


def reduce_scatter_v(x, counts, op="sum", *, out=None, group=None):
    """Reduces ``x`` of all ranks; rank ``i`` gets ``counts[i]`` rows of the result."""
    return _of(group).reduce_scatter_v(x, counts, op, out=out)


def reduce_scatter_v_async(x, counts, op="sum", *, out=None, group=None):
    """As ``reduce_scatter_v``, in the background."""
    return _of(group).reduce_scatter_v_async(x, counts, op, out=out)


def broadcast(x, root=0, *, out=None, in_place=False, group=None):
    """Gives every rank the root's ``x``. On the other ranks ``x`` says shape and type."""
    return _of(group).broadcast(x, root, out=out, in_place=in_place)


def broadcast_async(x, root=0, *, out=None, in_place=False, group=None):
    """As ``broadcast``, in the background."""
    return _of(group).broadcast_async(x, root, out=out, in_place=in_place)


def reduce(x, op="sum", root=0, *, out=None, in_place=False, group=None):
    """Reduces ``x`` of all ranks; the root gets the result, the others ``None``."""
    return _of(group).reduce(x, op, root, out=out, in_place=in_place)


def reduce_async(x, op="sum", root=0, *, out=None, in_place=False, group=None):
    """As ``reduce``, in the background."""
    return _of(group).reduce_async(x, op, root, out=out, in_place=in_place)


def gather(x, root=0, *, out=None, group=None):
    """Joins ``x`` of all ranks on axis 0 at the root; the others get ``None``."""
    return _of(group).gather(x, root, out=out)


def gather_async(x, root=0, *, out=None, group=None):
    """As ``gather``, in the background."""
    return _of(group).gather_async(x, root, out=out)


def gather_v(x, counts=None, root=0, *, out=None, group=None):
    """Joins ``x`` of all ranks at the root, which says how many rows each rank gives."""
    return _of(group).gather_v(x, counts, root, out=out)


def gather_v_async(x, counts=None, root=0, *, out=None, group=None):
    """As ``gather_v``, in the background."""
    return _of(group).gather_v_async(x, counts, root, out=out)


def scatter(x=None, root=0, *, out=None, shape=None, dtype=None, group=None):
    """Cuts the root's ``x`` on axis 0 into equal parts, one per rank."""
    return _of(group).scatter(x, root, out=out, shape=shape, dtype=dtype)


def scatter_async(x=None, root=0, *, out=None, shape=None, dtype=None, group=None):
    """As ``scatter``, in the background."""
    return _of(group).scatter_async(x, root, out=out, shape=shape, dtype=dtype)


def scatter_v(x=None, counts=None, root=0, *, out=None, shape=None, dtype=None, group=None):
    """Cuts the root's ``x`` on axis 0; rank ``i`` gets ``counts[i]`` rows, as the root says."""
    return _of(group).scatter_v(x, counts, root, out=out, shape=shape, dtype=dtype)


def scatter_v_async(x=None, counts=None, root=0, *, out=None, shape=None, dtype=None, group=None):
    """As ``scatter_v``, in the background."""
    return _of(group).scatter_v_async(x, counts, root, out=out, shape=shape, dtype=dtype)


def all_to_all(x, *, out=None, in_place=False, group=None):
    """Cuts ``x`` on axis 0 into equal parts; rank ``i`` gets part ``i`` of every rank."""
    return _of(group).all_to_all(x, out=out, in_place=in_place)


def all_to_all_async(x, *, out=None, in_place=False, group=None):
    """As ``all_to_all``, in the background."""
    return _of(group).all_to_all_async(x, out=out, in_place=in_place)


def all_to_all_v(x, send_counts, recv_counts, *, out=None, group=None):
    """Sends ``send_counts[i]`` rows to rank ``i`` and gets ``recv_counts[i]`` rows from it."""
    return _of(group).all_to_all_v(x, send_counts, recv_counts, out=out)


def all_to_all_v_async(x, send_counts, recv_counts, *, out=None, group=None):
    """As ``all_to_all_v``, in the background."""
    return _of(group).all_to_all_v_async(x, send_counts, recv_counts, out=out)


def scan(x, op="sum", *, out=None, in_place=False, group=None):
    """Rank ``i`` gets the reduction of ``x`` of ranks 0 to ``i``."""
    return _of(group).scan(x, op, out=out, in_place=in_place)


def scan_async(x, op="sum", *, out=None, in_place=False, group=None):
    """As ``scan``, in the background."""
    return _of(group).scan_async(x, op, out=out, in_place=in_place)


def send(x, dst, *, tag=0, group=None, stream=None):
    """Sends ``x`` to a rank and returns it."""
    return _of(group).send(x, dst, tag=tag)


def send_async(x, dst, *, tag=0, group=None, stream=None):
    """As ``send``, in the background."""
    return _of(group).send_async(x, dst, tag=tag)


def recv_like(x, src, *, tag=0, out=None, group=None, stream=None):
    """Receives an array of the shape and type of ``x``, which itself is not changed."""
    return _of(group).recv_like(x, src, tag=tag, out=out)


def recv_like_async(x, src, *, tag=0, out=None, group=None, stream=None):
    """As ``recv_like``, in the background."""
    return _of(group).recv_like_async(x, src, tag=tag, out=out)


def send_recv(x, dst, src, *, tag=0, shape=None, out=None, group=None):
    """Sends ``x`` to rank ``dst`` and receives from rank ``src`` at the same time."""
    return _of(group).send_recv(x, dst, src, tag=tag, shape=shape, out=out)


def send_recv_async(x, dst, src, *, tag=0, shape=None, out=None, group=None):
    """As ``send_recv``, in the background."""
    return _of(group).send_recv_async(x, dst, src, tag=tag, shape=shape, out=out)


def recv(shape=None, dtype=None, src=None, *, tag=0, out=None, group=None, stream=None):
    """Receives an array of this shape and type from rank ``src``; ``out`` says both too."""
    return _of(group).recv(shape, dtype, src, tag=tag, out=out)


def recv_async(shape=None, dtype=None, src=None, *, tag=0, out=None, group=None, stream=None):
    """As ``recv``, in the background."""
    return _of(group).recv_async(shape, dtype, src, tag=tag, out=out)


def all_sum(x, *, group=None, stream=None):
    """``all_reduce`` with ``sum``."""
    return _of(group).all_reduce(x, "sum")


def all_max(x, *, group=None, stream=None):
    """``all_reduce`` with ``max``."""
    return _of(group).all_reduce(x, "max")


def all_min(x, *, group=None, stream=None):
    """``all_reduce`` with ``min``."""
    return _of(group).all_reduce(x, "min")


def sum_scatter(x, *, group=None, stream=None):
    """``reduce_scatter`` with ``sum``."""
    return _of(group).reduce_scatter(x, "sum")
