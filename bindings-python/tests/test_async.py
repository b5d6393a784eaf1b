"""Operations in the background."""

import gc
import weakref

import numpy as np
import pytest

import lycaon


@pytest.mark.parametrize("links", ["shm", "tcp"])
def test_every_operation_in_the_background(job, links):
    job.start(
        3,
        """
        group = lycaon.init()
        rank, size = group.rank(), group.size()
        def mine(of, rows=6):
            return np.arange(rows * 2, dtype=np.int32).reshape(rows, 2) * (of + 1)
        all_ = [mine(of) for of in range(3)]
        x = mine(rank)
        out = np.empty_like(x)
        counts = [1, 2, 3]
        pending = [
            (group.all_reduce_async(x), sum(all_)),
            (group.all_reduce_async(x, "max", out=out), all_[2]),
            (group.all_gather_async(x), np.concatenate(all_)),
            (group.all_gather_v_async(mine(rank, rank + 1), counts),
                np.concatenate([mine(of, of + 1) for of in range(3)])),
            (group.reduce_scatter_async(x), sum(all_)[2 * rank : 2 * rank + 2]),
            (group.reduce_scatter_v_async(x, counts),
                sum(all_)[(0, 1, 3)[rank] : (1, 3, 6)[rank]]),
            (group.broadcast_async(x, 1), all_[1]),
            (group.reduce_async(x, root=2), sum(all_) if rank == 2 else None),
            (group.gather_async(x, 1), np.concatenate(all_) if rank == 1 else None),
            (group.gather_v_async(mine(rank, rank + 1), counts if rank == 0 else None),
                np.concatenate([mine(of, of + 1) for of in range(3)]) if rank == 0 else None),
            (group.scatter_async(x if rank == 0 else None, shape=(2, 2), dtype="i32"),
                all_[0][2 * rank : 2 * rank + 2]),
            (group.scatter_v_async(*((x, counts) if rank == 0 else ()),
                shape=(rank + 1, 2), dtype=np.int32), all_[0][(0, 1, 3)[rank] : (1, 3, 6)[rank]]),
            (group.all_to_all_async(x),
                np.concatenate([a[2 * rank : 2 * rank + 2] for a in all_])),
            (group.all_to_all_v_async(x, [2, 2, 2], [2, 2, 2]),
                np.concatenate([a[2 * rank : 2 * rank + 2] for a in all_])),
            (group.scan_async(x), sum(all_[: rank + 1])),
            (group.send_async(x, (rank + 1) % 3, tag=9), x),
            (group.recv_async((6, 2), "int32", (rank + 2) % 3, tag=9), all_[(rank + 2) % 3]),
            (group.send_recv_async(x, (rank + 1) % 3, (rank + 2) % 3), all_[(rank + 2) % 3]),
            (group.barrier_async(), None),
        ]
        if rank == 0:
            pending.append((group.send_async(x, 1, tag=4), x))
        if rank == 1:
            pending.append((group.recv_like_async(x, 0, tag=4), all_[0]))
        for number, (work, expected) in enumerate(pending):
            got = work.wait(timeout=20)
            assert work.done() and work.result() is got
            if expected is None:
                assert got is None, number
            else:
                assert (got == expected).all(), (number, got, expected)
        assert pending[1][0].wait() is out
        """,
        links=links,
    ).succeed()


def test_a_wait_with_a_limit_and_one_without(job):
    job.start(
        2,
        """
        group = lycaon.init()
        x = np.full(1000, group.rank() + 1.0)
        if group.rank() == 0:
            work = group.all_reduce_async(x)
            began = time.monotonic()
            try:
                work.wait(timeout=0.2)
            except TimeoutError as error:
                assert not isinstance(error, lycaon.Error) and "goes on" in str(error)
            else:
                raise SystemExit("it cannot have ended")
            assert 0.15 < time.monotonic() - began < 1.5
            assert not work.done() and "running" in repr(work)
            try:
                work.result()
            except RuntimeError as error:
                assert "not ended" in str(error)
            else:
                raise SystemExit("there is no result yet")
            group.send(x, 1)
            assert (work.wait() == 3).all() and "done" in repr(work)
        else:
            group.recv_like(x, 0)
            assert (group.all_reduce(x) == 3).all()
        """,
    ).succeed()


def test_an_operation_keeps_its_arrays(job):
    job.start(
        2,
        """
        import gc
        group = lycaon.init()
        rank = group.rank()
        for _ in range(20):
            pending = [group.all_reduce_async(np.full(100_000, float(n + rank))) for n in range(5)]
            gc.collect()
            junk = [np.full(100_000, -1.0) for _ in range(5)]
            for n, work in enumerate(pending):
                assert (work.wait() == 2 * n + 1).all()
        # A bytearray cannot be resized while an operation holds it, and can afterwards.
        box = bytearray(8)
        if rank == 0:
            work = group.recv_async(src=1, out=box)
            try:
                box.extend(b"more")
            except BufferError:
                pass
            else:
                raise SystemExit("the memory moved under the operation")
            group.barrier()
            assert work.wait() is box and bytes(box) == b"12345678"
            box.extend(b"more")
        else:
            group.barrier()
            group.send(b"12345678", 0)
        # Dropping the Work does not cancel the operation.
        group.send_async(np.arange(3), 1 - rank, tag=5)
        assert group.recv((3,), int, 1 - rank, tag=5).tolist() == [0, 1, 2]
        """,
    ).succeed()


def test_buffers_are_let_go(alone):
    class Array(np.ndarray):
        """Can be referred to weakly."""

    x = np.arange(1000.0).view(Array)
    gone = weakref.ref(x)
    work = alone.all_reduce_async(x)
    result = work.wait()
    del x
    gc.collect()
    assert gone() is None, "the work holds its input after the end"
    gone = weakref.ref(result)
    del work, result
    gc.collect()
    assert gone() is None


def test_closing_ends_what_is_under_way(job):
    began = job.start(
        2,
        """
        group = lycaon.init()
        if group.rank() == 0:
            work = group.recv_async((10,), float, 1)
            time.sleep(0.1)
            group.close()
            for attempt in (work.wait, work.result, lambda: group.all_reduce(1)):
                try:
                    attempt()
                except lycaon.Closed as error:
                    assert error.kind == "closed"
                else:
                    raise SystemExit("the group is closed")
            assert "closed" in repr(group)
            group.close()
        else:
            try:
                group.recv((10,), float, 0)
            except lycaon.RankLeft as error:
                assert error.left_rank == 0
            else:
                raise SystemExit("rank 0 has left")
        """,
    )
    began.succeed(20)


def test_exit_with_work_under_way_does_not_hang(job):
    ended = job.start(
        2,
        """
        group = lycaon.init()
        part = group.split(0)
        work = [group.recv_async((1000,), float, 1 - group.rank()), part.barrier_async()]
        print("leaving")
        """,
    ).end(20)
    assert [end.code for end in ended] == [0, 0], ended
    assert all(end.err == "" for end in ended), ended


def test_wait_refuses_what_is_no_time(alone):
    work = alone.all_reduce_async(1)
    for timeout in (-1.0, float("nan"), float("inf")):
        with pytest.raises(lycaon.ConfigError):
            work.wait(timeout=timeout)
    assert work.wait(10).item() == 1
