"""Exceptions: one class per kind, with its fields."""

import pickle

import pytest

import lycaon
from lycaon import _lycaon

OPERATION = {
    "rank": 1,
    "operation": "all_reduce",
    "sequence": 41,
    "peer": 2,
    "link": "tcp",
    "elapsed": 1.5,
}

# kind: (class, other bases, fields)
TABLE = {
    "unsupported": ("ArgumentError", ValueError, {"op": "band", "dtype": "f32"}),
    "unknown_dtype": ("ArgumentError", ValueError, {"name": "f31"}),
    "unknown_op": ("ArgumentError", ValueError, {"name": "sun"}),
    "no_such_rank": ("ArgumentError", ValueError, {"what": "root", "rank": 7, "size": 3}),
    "self_message": ("ArgumentError", ValueError, {"what": "destination", "rank": 1}),
    "length": ("ArgumentError", ValueError, {"what": "output", "expected": 8, "actual": 6}),
    "ragged": ("ArgumentError", ValueError, {"what": "input", "bytes": 7, "dtype": "f32"}),
    "indivisible": ("ArgumentError", ValueError, {"what": "input", "count": 7, "size": 3}),
    "counts": ("ArgumentError", ValueError, {"what": "counts", "actual": 2, "size": 3}),
    "overlap": ("ArgumentError", ValueError, {}),
    "missing_buffer": ("ArgumentError", ValueError, {"rank": 1, "what": "input"}),
    "unused_buffer": ("ArgumentError", ValueError, {"rank": 1, "what": "output"}),
    "too_large": ("ArgumentError", ValueError, {"what": "output"}),
    "not_a_collective": ("ArgumentError", ValueError, {"operation": "send"}),
    "counts_form": (
        "ArgumentError",
        ValueError,
        {"operation": "barrier", "takes": "no counts", "given": "All"},
    ),
    "missing_op": ("ArgumentError", ValueError, {"operation": "scan"}),
    "unused_op": ("ArgumentError", ValueError, {"operation": "broadcast", "op": "sum"}),
    "value": (
        "ConfigError",
        ValueError,
        {"name": "LYCAON_RANK", "value": "two", "expected": "a rank (0, 1, …)"},
    ),
    "missing": (
        "ConfigError",
        ValueError,
        {"missing": "LYCAON_SIZE", "present": "LYCAON_RANK=1"},
    ),
    "conflict": (
        "ConfigError",
        ValueError,
        {
            "first": "LYCAON_RANK=3",
            "second": "LYCAON_SIZE=3",
            "why": "ranks go from 0 to size - 1",
        },
    ),
    "file": ("ConfigError", ValueError, {"path": "/hosts.json", "reason": "not found"}),
    "content": (
        "ConfigError",
        ValueError,
        {"path": "/hosts.json", "place": "line 3", "reason": "no address"},
    ),
    "token_needed": ("ConfigError", ValueError, {"address": "10.0.0.1:4000"}),
    "start_deadline": (
        "StartTimeout",
        TimeoutError,
        {"rank": 1, "within": 1.5, "waiting_for": "no word from rank 2"},
    ),
    "unreachable": (
        "Unreachable",
        ConnectionError,
        {
            "rank": 1,
            "action": "connect to",
            "address": "10.0.0.1:4000",
            "local": "10.0.0.2 (en5)",
            "tried": 1.5,
            "reason": "no route to host",
        },
    ),
    "authentication": (
        "AuthenticationFailed",
        lycaon.StartError,
        {"rank": 1, "peer": "10.0.0.3:5000"},
    ),
    "disagreement": (
        "Disagreement",
        lycaon.StartError,
        {"what": "size", "first": 0, "first_value": "3", "second": 1, "second_value": "4"},
    ),
    "duplicate_rank": (
        "DuplicateRank",
        lycaon.StartError,
        {"rank": 1, "first": "host a, process 1", "second": "host b, process 2"},
    ),
    "rank_failed": ("RankFailed", lycaon.StartError, {"rank": 2, "reason": "out of memory"}),
    "no_link": ("NoLink", lycaon.StartError, {"first": 1, "second": 2, "reason": "tcp: refused"}),
    "system": (
        "SystemFailure",
        OSError,
        {"rank": 1, "action": "make shared memory", "reason": "too many open files"},
    ),
    "side_channel": ("SideChannelFailed", lycaon.StartError, {"rank": 1, "reason": "no answer"}),
    "start_interrupted": ("StartInterrupted", lycaon.StartError, {"rank": 1}),
    "rank_died": (
        "RankDied",
        lycaon.OperationError,
        {**OPERATION, "dead_rank": 2, "how": "its connection closed"},
    ),
    "rank_left": ("RankLeft", lycaon.OperationError, {**OPERATION, "left_rank": 2}),
    "link_lost": (
        "LinkLost",
        ConnectionError,
        {**OPERATION, "first": 1, "second": 2, "lost_link": "tcp", "reason": "connection reset"},
    ),
    "deadline": (
        "Timeout",
        TimeoutError,
        {
            **OPERATION,
            "late_rank": 1,
            "late_call": "all_reduce #41 (f32 × 1024, sum)",
            "late_peer": 2,
            "waited": 1.5,
        },
    ),
    "mismatch": (
        "Mismatch",
        lycaon.OperationError,
        {
            **OPERATION,
            "first": 0,
            "first_call": "all_reduce #41 (f32 × 1024, sum)",
            "second": 1,
            "second_call": "all_gather #41 (i64 × 8)",
        },
    ),
    "interrupted": (
        "Interrupted",
        lycaon.OperationError,
        {
            **OPERATION,
            "interrupted_rank": 1,
            "interrupted_call": "all_reduce #41 (f32 × 1024, sum)",
        },
    ),
    "closed": ("Closed", lycaon.OperationError, OPERATION),
    "forked": ("Forked", lycaon.OperationError, {**OPERATION, "owner": 4711}),
    "protocol": (
        "ProtocolError",
        lycaon.OperationError,
        {**OPERATION, "receiver": 1, "sender": 2, "what": "a frame of no kind"},
    ),
    "panicked": (
        "InternalError",
        lycaon.OperationError,
        {**OPERATION, "panicked_rank": 1, "panic": "bug"},
    ),
}


def test_every_kind_has_its_class_and_fields():
    samples = {error.kind: error for error in _lycaon._sample_errors()}
    assert samples.keys() == TABLE.keys()
    for kind, (name, base, fields) in TABLE.items():
        error = samples[kind]
        assert type(error) is getattr(lycaon, name), kind
        assert isinstance(error, base) and isinstance(error, lycaon.Error), kind
        found = {key: value for key, value in vars(error).items() if key not in ("kind", "cause")}
        assert found == fields, kind
        assert str(error) and error.args == (str(error),), kind
        if isinstance(error, lycaon.OperationError):
            assert error.cause in str(error)


def test_fields_are_annotated():
    for error in _lycaon._sample_errors():
        annotated = {name for base in type(error).__mro__ for name in base.__dict__.get("__annotations__", ())}
        assert vars(error).keys() <= annotated, type(error)


def test_exceptions_travel_between_processes():
    for error in _lycaon._sample_errors():
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is type(error) and vars(copy) == vars(error) and str(copy) == str(error)


@pytest.mark.parametrize("links", ["shm", "tcp"])
def test_a_killed_peer(job, links):
    job.start(
        3,
        """
        group = lycaon.init()
        x = np.ones(1000)
        for step in range(1_000_000):
            if group.rank() == 1 and step == 50:
                os.kill(os.getpid(), signal.SIGKILL)
            began = time.monotonic()
            try:
                group.all_reduce(x)
            except lycaon.RankDied as error:
                assert time.monotonic() - began < 1
                assert error.dead_rank == 1 and error.rank == group.rank()
                # A rank may hear of the death between two calls: the next one never starts.
                heard = error.operation is None
                assert heard or error.operation == "all_reduce", error.operation
                assert error.sequence in ((None,) if heard else (49, 50, 51)), error.sequence
                assert error.elapsed < 1 and "rank 1 died" in error.cause
                break
        try:
            group.barrier()
        except lycaon.RankDied as error:
            assert error.operation is None and error.sequence is None
        else:
            raise SystemExit("the group is poisoned")
        assert heard or any(record.outcome == "failed" for record in group.flight_recorder())
        print("survived")
        """,
        links=links,
    )
    ended = job.end(30)
    assert [end.code for end in ended] == [0, -9, 0], ended
    assert "survived" in ended[0].out and "survived" in ended[2].out


@pytest.mark.parametrize("links", ["shm", "tcp"])
def test_a_mismatch(job, links):
    job.start(
        2,
        """
        group = lycaon.init()
        group.barrier()
        try:
            if group.rank() == 0:
                group.all_reduce(np.ones(4, np.float32))
            else:
                group.all_gather(np.ones(3, np.int64))
        except lycaon.Mismatch as error:
            calls = {error.first: error.first_call, error.second: error.second_call}
            assert calls == {
                0: "all_reduce #1 (f32 × 4, sum)", 1: "all_gather #1 (i64 × 3)"
            }, calls
            assert error.rank == group.rank()
        else:
            raise SystemExit("nobody noticed")
        """,
        links=links,
    ).succeed(20)


@pytest.mark.parametrize("links", ["shm", "tcp"])
def test_a_deadline(job, links):
    job.start(
        2,
        """
        group = lycaon.init()
        group.timeout = 0.5
        assert group.timeout == 0.5
        if group.rank() == 0:
            began = time.monotonic()
            try:
                group.recv((3,), float, 1)
            except lycaon.Timeout as error:
                assert isinstance(error, TimeoutError)
                assert 0.4 < time.monotonic() - began < 3
                assert error.late_rank == 0 and error.peer == 1 and error.operation == "recv"
                assert 0.4 < error.waited < 3 and error.elapsed >= error.waited * 0.9
            else:
                raise SystemExit("rank 1 sends nothing")
        else:
            time.sleep(1.5)
        """,
        links=links,
    ).succeed(20)
