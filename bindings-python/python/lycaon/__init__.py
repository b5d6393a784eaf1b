"""Collective communication for clusters of Macs and Linux machines.

``init`` gives the group that the environment describes, as ``lycaon launch`` sets it; its methods
are the operations. The same operations are functions of this module, with ``group=None`` meaning
that first group. The names of ``mx.distributed`` work too.
"""

import atexit as _atexit

from lycaon import _lycaon
from lycaon._errors import (
    ArgumentError,
    AuthenticationFailed,
    Closed,
    ConfigError,
    Disagreement,
    DuplicateRank,
    Error,
    Forked,
    InternalError,
    Interrupted,
    LinkLost,
    Mismatch,
    NoLink,
    OperationError,
    ProtocolError,
    RankDied,
    RankFailed,
    RankLeft,
    SideChannelFailed,
    StartError,
    StartInterrupted,
    StartTimeout,
    SystemFailure,
    Timeout,
    Unreachable,
)
from lycaon._functions import (
    all_gather,
    all_gather_async,
    all_gather_v,
    all_gather_v_async,
    all_max,
    all_min,
    all_reduce,
    all_reduce_async,
    all_sum,
    all_to_all,
    all_to_all_async,
    all_to_all_v,
    all_to_all_v_async,
    barrier,
    barrier_async,
    broadcast,
    broadcast_async,
    gather,
    gather_async,
    gather_v,
    gather_v_async,
    init,
    is_available,
    recv,
    recv_async,
    recv_like,
    recv_like_async,
    reduce,
    reduce_async,
    reduce_scatter,
    reduce_scatter_async,
    reduce_scatter_v,
    reduce_scatter_v_async,
    scan,
    scan_async,
    scatter,
    scatter_async,
    scatter_v,
    scatter_v_async,
    send,
    send_async,
    send_recv,
    send_recv_async,
    split,
    sum_scatter,
)
from lycaon._lycaon import Config, Group, Link, Progress, Record, Work, __version__

TYPE_CHECKING = False  # as in `typing`, whose import would take as long as all of this
if TYPE_CHECKING:
    from lycaon.cluster import Cluster, ClusterError, RankError, run

__all__ = [
    "ArgumentError",
    "AuthenticationFailed",
    "Closed",
    "Cluster",
    "ClusterError",
    "Config",
    "ConfigError",
    "Disagreement",
    "DuplicateRank",
    "Error",
    "Forked",
    "Group",
    "InternalError",
    "Interrupted",
    "Link",
    "LinkLost",
    "Mismatch",
    "NoLink",
    "OperationError",
    "Progress",
    "ProtocolError",
    "RankDied",
    "RankError",
    "RankFailed",
    "RankLeft",
    "Record",
    "SideChannelFailed",
    "StartError",
    "StartInterrupted",
    "StartTimeout",
    "SystemFailure",
    "Timeout",
    "Unreachable",
    "Work",
    "__version__",
    "all_gather",
    "all_gather_async",
    "all_gather_v",
    "all_gather_v_async",
    "all_max",
    "all_min",
    "all_reduce",
    "all_reduce_async",
    "all_sum",
    "all_to_all",
    "all_to_all_async",
    "all_to_all_v",
    "all_to_all_v_async",
    "barrier",
    "barrier_async",
    "broadcast",
    "broadcast_async",
    "gather",
    "gather_async",
    "gather_v",
    "gather_v_async",
    "init",
    "is_available",
    "recv",
    "recv_async",
    "recv_like",
    "recv_like_async",
    "reduce",
    "reduce_async",
    "reduce_scatter",
    "reduce_scatter_async",
    "reduce_scatter_v",
    "reduce_scatter_v_async",
    "run",
    "scan",
    "scan_async",
    "scatter",
    "scatter_async",
    "scatter_v",
    "scatter_v_async",
    "send",
    "send_async",
    "send_recv",
    "send_recv_async",
    "split",
    "sum_scatter",
]

# Before the interpreter goes: operations in the background hold its objects.
_atexit.register(_lycaon._close_all)

if not TYPE_CHECKING:

    def __getattr__(name):
        # Ranks for notebooks: what they need is imported when they are used.
        if name in ("Cluster", "ClusterError", "RankError", "run"):
            from lycaon import cluster

            return getattr(cluster, name)
        raise AttributeError(f"module 'lycaon' has no attribute {name!r}")


def load_ipython_extension(ipython: object) -> None:
    """``%load_ext lycaon`` adds ``%%lycaon``, which runs a cell on the ranks of a cluster."""
    from lycaon.cluster import _magic

    _magic.load(ipython)
