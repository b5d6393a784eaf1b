"""``%load_ext lycaon``: cells that run on ranks."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from lycaon.cluster._cluster import Cluster, latest

if TYPE_CHECKING:
    # What IPython says of its types differs from version to version.
    Magics: Any
    UsageError: Any
    cell_magic: Any
    line_magic: Any
    magics_class: Any
else:
    from IPython.core.error import UsageError
    from IPython.core.magic import Magics, cell_magic, line_magic, magics_class

USAGE = """\
%%lycaon [--ranks 0,2] [--timeout SECONDS]   run the cell on the ranks
%lycaon start N [--join]                     make a cluster for %%lycaon
%lycaon status | restart | stop              of the cluster made last"""


@magics_class
class LycaonMagics(Magics):  # type: ignore[misc]
    made: Cluster | None = None

    @cell_magic("lycaon")  # type: ignore[untyped-decorator]
    def cell(self, line: str, cell: str) -> None:
        """Runs the cell on the ranks of the cluster that was made last.

        Output, results and plots carry the number of their rank. ``group``, ``rank`` and ``size``
        are there. ``--ranks 0,2-3`` chooses ranks, ``--timeout SECONDS`` interrupts them.
        """
        ranks: list[int] | None = None
        timeout: float | None = None
        words = shlex.split(line)
        while words:
            option, _, value = words.pop(0).partition("=")
            if option not in ("--ranks", "--timeout"):
                raise UsageError(f"{option!r} is not known\n{USAGE}")
            if not value:
                if not words:
                    raise UsageError(f"{option} needs a value\n{USAGE}")
                value = words.pop(0)
            try:
                if option == "--ranks":
                    ranks = parse_ranks(value)
                else:
                    timeout = float(value)
            except ValueError:
                raise UsageError(f"{option} {value!r} makes no sense\n{USAGE}") from None
        self.cluster().execute(cell, ranks=ranks, timeout=timeout)

    @line_magic("lycaon")  # type: ignore[untyped-decorator]
    def line(self, line: str) -> Any:
        """``%lycaon start 4 [--join]``, ``%lycaon status``, ``restart`` or ``stop``."""
        match shlex.split(line):
            case ["start", number, *rest] if number.isdigit() and rest in ([], ["--join"]):
                self.made = Cluster(int(number), join=bool(rest)).__enter__()
                return self.made
            case ["status"]:
                return self.cluster()
            case ["restart"]:
                self.cluster().restart()
                return None
            case ["stop"]:
                self.cluster().close()
                self.made = None
                return None
        raise UsageError(USAGE)

    def cluster(self) -> Cluster:
        cluster = latest()
        if cluster is None:
            raise UsageError("no cluster is open: %lycaon start 4, or c = lycaon.Cluster(4)")
        return cluster


def parse_ranks(text: str) -> list[int]:
    ranks: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ranks += range(int(first), int(last) + 1) if dash else [int(first)]
    return ranks


def load(ipython: Any) -> None:
    ipython.register_magics(LycaonMagics)
