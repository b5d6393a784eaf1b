"""The exceptions. One class per kind of failure; the fields are attributes."""

from __future__ import annotations


class Error(Exception):
    """Any error of lycaon."""

    kind: str
    """The name of the kind, for example ``rank_died``."""


class ArgumentError(Error, ValueError):
    """The call makes no sense. Nothing was sent, and the group goes on.

    ``kind`` says in which way; where they apply there are ``what``, ``expected``, ``actual``,
    ``rank``, ``size``, ``count``, ``bytes``, ``dtype``, ``op``, ``name``, ``operation``, ``takes``
    and ``given``.
    """

    what: str
    expected: int
    actual: int
    rank: int
    size: int
    count: int
    bytes: int
    dtype: str
    op: str
    name: str
    operation: str
    takes: str
    given: str


class ConfigError(Error, ValueError):
    """The environment, a hostfile or a value of ``Config`` is wrong.

    By ``kind``: ``name``, ``value``, ``expected``; ``missing``, ``present``; ``first``, ``second``,
    ``why``; ``path``, ``place``, ``reason``; ``address``.
    """

    name: str
    value: str
    expected: str
    missing: str
    present: str
    first: str
    second: str
    why: str
    path: str
    place: str
    reason: str
    address: str


class StartError(Error):
    """The group could not be formed."""


class StartTimeout(StartError, TimeoutError):
    """The start-up deadline passed."""

    rank: int
    within: float
    waiting_for: str


class Unreachable(StartError, ConnectionError):
    """The rendezvous could not be listened on or reached."""

    rank: int
    action: str
    address: str
    local: str
    tried: float
    reason: str


class AuthenticationFailed(StartError):
    """The other side did not prove that it knows the job's token."""

    rank: int
    peer: str


class Disagreement(StartError):
    """Two ranks differ in something that must be equal."""

    what: str
    first: int
    first_value: str
    second: int
    second_value: str


class DuplicateRank(StartError):
    """Two processes claim one rank."""

    rank: int
    first: str
    second: str


class RankFailed(StartError):
    """A rank failed or went away while the group was forming."""

    rank: int
    reason: str


class NoLink(StartError):
    """No link that both sides accept joins two ranks."""

    first: int
    second: int
    reason: str


class SystemFailure(StartError, OSError):
    """The operating system refused something."""

    rank: int
    action: str
    reason: str


class SideChannelFailed(StartError):
    """The all-gather function given by the program failed."""

    rank: int
    reason: str


class StartInterrupted(StartError):
    """The start was interrupted by the program."""

    rank: int


class OperationError(Error):
    """An operation failed. The group is poisoned: every later call raises the same cause."""

    rank: int
    """This rank, in the group of the operation."""
    operation: str | None
    """The operation that failed here; ``None`` if the group had failed before the call."""
    sequence: int | None
    """Its number in its group, or of the message on its tag."""
    peer: int | None
    """The rank that was waited for, if it was one."""
    link: str | None
    """The link to it."""
    elapsed: float
    """Seconds that the operation had run."""
    cause: str
    """What went wrong first, anywhere in the group. Ranks in it are those of the whole job."""


class RankDied(OperationError):
    """A process ended without closing its group."""

    dead_rank: int
    how: str


class RankLeft(OperationError):
    """A rank closed the group while others still needed it."""

    left_rank: int


class LinkLost(OperationError, ConnectionError):
    """A link broke while both processes live."""

    first: int
    second: int
    lost_link: str
    reason: str


class Timeout(OperationError, TimeoutError):
    """Nothing moved for as long as the deadline allows."""

    late_rank: int
    late_call: str
    late_peer: int | None
    waited: float


class Mismatch(OperationError):
    """Two ranks called different things at the same place of the order."""

    first: int
    first_call: str
    second: int
    second_call: str


class Interrupted(OperationError):
    """A rank asked for an end of waiting, for example by Ctrl-C."""

    interrupted_rank: int
    interrupted_call: str


class Closed(OperationError):
    """This process closed the group itself."""


class Forked(OperationError):
    """The group belongs to the parent of this forked child."""

    owner: int


class ProtocolError(OperationError):
    """A peer sent what the protocol does not allow."""

    receiver: int
    sender: int
    what: str


class InternalError(OperationError):
    """A thread of the library panicked: a bug to report."""

    panicked_rank: int
    panic: str
