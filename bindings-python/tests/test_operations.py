"""Every operation with every type on 1, 2 and 3 ranks, over shared memory and TCP."""

from pathlib import Path

import pytest

MATRIX = Path(__file__).with_name("matrix_program.py")


@pytest.mark.parametrize("links", ["shm", "tcp"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_operation_and_type(job, size, links):
    outputs = job.start(size, MATRIX, links=links).succeed(100)
    over = links if size > 1 else "nothing"
    for output in outputs:
        words = output.split()
        assert words[0] == "checked" and int(words[1]) > 1000 and words[3] == over, output


@pytest.mark.parametrize("links", ["shm", "tcp"])
def test_in_place_and_out(job, links):
    job.start(
        3,
        """
        group = lycaon.init()
        rank, size = group.rank(), group.size()
        for count in (1, 5, 100_000):
            def mine(of):
                return np.arange(count, dtype=np.float32) + of
            total = mine(0) + mine(1) + mine(2)
            x = mine(rank)
            assert group.all_reduce(x, in_place=True) is x
            assert (x == total).all()
            x, out = mine(rank), np.full(count, np.nan, np.float32)
            assert group.all_reduce(x, out=out) is out
            assert (out == total).all() and (x == mine(rank)).all()
            assert group.all_reduce(x, out=x) is x, "the same memory is in place"
            assert (x == total).all()
            x = mine(rank)
            assert group.scan(x, in_place=True) is x
            assert (x == sum(mine(of) for of in range(rank + 1))).all()
            x = mine(rank)
            assert group.broadcast(x, 2, in_place=True) is x
            assert (x == mine(2)).all()
            x, out = mine(rank), np.empty(count, np.float32)
            assert group.broadcast(x, 1, out=out) is out
            assert (out == mine(1)).all() and (x == mine(rank)).all()
            x = mine(rank)
            result = group.reduce(x, root=1, in_place=True)
            assert (result is x) if rank == 1 else (result is None)
            assert (x == (total if rank == 1 else mine(rank))).all()
            whole = np.zeros(size * count, np.float32)
            whole[rank * count : (rank + 1) * count] = mine(rank)
            assert group.all_gather(whole, in_place=True) is whole
            assert (whole == np.concatenate([mine(of) for of in range(size)])).all()
            out = np.empty_like(whole)
            assert group.all_gather(mine(rank), out=out) is out
            assert (out == whole).all()
            x = whole + 1000 * rank
            expected = np.concatenate([mine(rank) + 1000 * of for of in range(size)])
            assert group.all_to_all(x, in_place=True) is x
            assert (x == expected).all()
            out = np.empty(count, np.float32)
            assert group.reduce_scatter(whole, out=out) is out
            assert (out == 3 * mine(rank)).all()
            got = np.empty(count, np.float32)
            group.send_recv(mine(rank), (rank + 1) % 3, (rank + 2) % 3, out=got)
            assert (got == mine((rank + 2) % 3)).all()
        # Buffers that are no arrays.
        box = bytearray([rank] * 4)
        assert group.all_reduce(box, in_place=True) is box
        assert box == bytearray([3] * 4)
        view = memoryview(bytearray(8)).cast("i")
        view[0] = view[1] = rank
        assert group.all_reduce(view, "max", out=view) is view
        assert view.tolist() == [2, 2]
        """,
        links=links,
    ).succeed()


def test_what_is_not_contiguous_is_read_as_it_is(job):
    job.start(
        2,
        """
        import ml_dtypes
        group = lycaon.init()
        rank = group.rank()
        base = np.arange(24).reshape(4, 6)
        for dtype in (np.float32, np.int64, np.complex64, ml_dtypes.bfloat16):
            a, b = base.astype(dtype), (base + 10).astype(dtype)
            for view in (
                lambda x: x[::2], lambda x: x[:, 1:3], lambda x: x.T, lambda x: x[::-1],
                lambda x: x[:, ::-3], lambda x: np.asfortranarray(x),
                lambda x: np.broadcast_to(x[0], (4, 6)), lambda x: x[1:1],
            ):
                x = view((a, b)[rank])
                got = group.all_reduce(x)
                assert got.flags.c_contiguous or got.size == 0
                assert got.shape == x.shape
                assert (got == view(a) + view(b)).all(), (dtype, x.strides)
                got = group.all_gather(x)
                assert (got == np.concatenate([view(a), view(b)])).all()
                group.broadcast(x, 1)
                assert (group.send_recv(x, 1 - rank, 1 - rank) == view((b, a)[rank])).all()
                assert (group.all_reduce_async(x).wait() == view(a) + view(b)).all()
        """,
    ).succeed()


def test_split(job):
    job.start(
        3,
        """
        group = lycaon.init()
        rank = group.rank()
        part = group.split(rank % 2)
        assert (part.rank(), part.size()) == ((rank // 2), (2, 1, 2)[rank])
        assert part.members == ((0, 2), (1,), (0, 2))[rank]
        assert part.all_reduce(rank).item() == (2, 1, 2)[rank]
        back = group.split(7, -rank)
        assert back.rank() == 2 - rank and back.members == (2, 1, 0)
        assert back.all_gather(rank).tolist() == [2, 1, 0]
        some = group.split(None if rank == 1 else 0)
        assert (some is None) == (rank == 1)
        if some:
            deep = some.split(some.rank())
            assert deep.all_reduce(rank).item() == rank and deep.members == (rank,)
            assert some.all_reduce(rank).item() == 2
        assert group.all_reduce(rank).item() == 3
        try:
            group.split(-1)
        except lycaon.ArgumentError as error:
            assert error.kind == "color"
        else:
            raise SystemExit("a negative color was taken")
        """,
    ).succeed()
