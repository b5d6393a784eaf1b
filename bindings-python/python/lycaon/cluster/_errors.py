"""What a call on the ranks raises when some of them fail."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from lycaon._errors import Error

CONSEQUENCES = {"rank_left", "rank_died", "interrupted", "link_lost", "closed", "timeout"}
"""Kinds of errors that a rank has because of another one."""


class ClusterError(Error):
    """The cluster cannot do this: it is closed, could not be started, or is busy."""

    kind = "cluster"


@dataclass(frozen=True)
class RankFailure:
    """How a call ended on one rank."""

    rank: int
    name: str
    """The class of the exception, or ``exit``."""
    message: str
    traceback: str
    exception: BaseException | None
    """The exception itself, if it could travel."""
    consequence: bool
    """It failed because another rank did."""
    at: float
    shown: tuple[str, ...] | None = None

    @property
    def summary(self) -> str:
        if self.name == "exit":
            return self.message
        return f"{self.name}: {self.message}" if self.message else self.name


class RankError(ClusterError):
    """A function or cell failed on some ranks.

    ``rank`` is the one that failed first, and ``failures`` says of every rank that failed how.
    The exception of ``rank`` is the cause (``__cause__``), if it could be brought here.
    """

    kind = "rank_error"
    rank: int
    failures: dict[int, RankFailure]

    def __init__(self, failures: dict[int, RankFailure], size: int) -> None:
        self.failures = dict(sorted(failures.items()))
        self.size = size
        first = primary(self.failures)
        self.rank = first.rank
        super().__init__(self._text(first.traceback.rstrip()))
        self.__cause__ = first.exception
        self.__suppress_context__ = True

    def __reduce__(self) -> tuple[type[RankError], tuple[dict[int, RankFailure], int]]:
        return type(self), (self.failures, self.size)

    @property
    def headline(self) -> str:
        first = self.failures[self.rank]
        same = [r for r, f in self.failures.items() if f.summary == first.summary]
        what = first.summary if first.name == "exit" else f"raised {first.summary}"
        if len(same) > 1 and what.startswith("was "):
            what = f"were {what[4:]}"
        return f"{named(same)} of {self.size} {what}"

    def _text(self, traceback: str) -> str:
        lines = [self.headline]
        first = self.failures[self.rank]
        if traceback:
            lines += ["", f"on rank {self.rank}:", traceback]
        others: dict[str, list[int]] = {}
        for rank, failure in self.failures.items():
            if failure.summary != first.summary:
                mark = "as a consequence, " if failure.consequence else "also, "
                text = failure.summary.split("\n")[0]
                others.setdefault(f"{mark}{{}}: {text}", []).append(rank)
        if others:
            lines.append("")
        lines += [text.replace("{}", named(ranks), 1) for text, ranks in others.items()]
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """For IPython: what happened on the rank, in place of how the call was made here."""
        shown = self.failures[self.rank].shown
        text = "\n".join(shown) if shown else self.failures[self.rank].traceback.rstrip()
        return self._text(text).split("\n")


def named(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks))}"


def primary(failures: dict[int, RankFailure]) -> RankFailure:
    """The failure that the others may come from: the earliest that is no consequence."""
    return min(failures.values(), key=lambda failure: (failure.consequence, failure.at))


def how_ended(code: int) -> str:
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"ended with exit code {code}"
