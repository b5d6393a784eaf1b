"""Ranks for a notebook or a script: ``lycaon.Cluster`` and ``lycaon.run``."""

from lycaon.cluster._call import Call
from lycaon.cluster._cluster import Cluster, run
from lycaon.cluster._errors import ClusterError, RankError, RankFailure
from lycaon.cluster._track import track

__all__ = ["Call", "Cluster", "ClusterError", "RankError", "RankFailure", "run", "track"]
