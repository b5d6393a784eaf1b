"""Every operation for every type, compared with NumPy. Run on every rank by test_operations.py."""

import sys

import ml_dtypes
import numpy as np

import lycaon

group = lycaon.init()
rank, size = group.rank(), group.size()

TYPES = [
    *(np.dtype(name) for name in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()),
    *(np.dtype(name) for name in "float16 float32 float64 complex64 complex128".split()),
    np.dtype(ml_dtypes.bfloat16),
    np.dtype("longlong"),
]
SHAPES = [(), (0,), (1,), (size,), (size * 3,), (2 * size, 3), (size, 0, 2), (size * 700, 7)]
BITS = ("band", "bor", "bxor")
checks = 0


def data(of, shape, dtype, salt=0):
    """Small whole numbers that differ by rank and position, exact in every type and sum."""
    count = int(np.prod(shape))
    values = (np.arange(count) * 7 + of * 11 + salt * 5) % 13 - (0 if dtype.kind in "ub" else 6)
    values = values.reshape(shape)
    if dtype.kind == "c":
        return (values + 1j * (values[..., ::-1] if shape else values + 1)).astype(dtype)
    return (values % 2 == 0 if dtype.kind == "b" else values).astype(dtype)


def everyone(shape, dtype, salt=0):
    return [data(of, shape, dtype, salt) for of in range(size)]


def reduction(op, parts, dtype):
    wide = parts
    if dtype.kind == "V" or dtype.kind == "f":
        wide = [part.astype(np.float64) for part in parts]
    if dtype.kind == "b" and op in ("sum", "prod"):
        op = {"sum": "lor", "prod": "land"}[op]
    total = wide[0]
    for part in wide[1:]:
        total = {
            "sum": lambda a, b: a + b,
            "prod": lambda a, b: a * b,
            "min": np.minimum,
            "max": np.maximum,
            "avg": lambda a, b: a + b,
            "band": np.bitwise_and,
            "bor": np.bitwise_or,
            "bxor": np.bitwise_xor,
            "land": np.logical_and,
            "lor": np.logical_or,
        }[op](total, part)
    if op in ("land", "lor") and len(parts) == 1:
        total = total.astype(bool)
    if op == "avg":
        total = total / size
    return np.asarray(total).astype(dtype)


def same(got, expected, what):
    global checks
    checks += 1
    assert isinstance(got, np.ndarray), (what, type(got))
    expected = np.asarray(expected)
    assert got.dtype == expected.dtype, (what, got.dtype, expected.dtype)
    assert got.shape == expected.shape, (what, got.shape, expected.shape)
    assert got.tobytes() == np.ascontiguousarray(expected).tobytes(), (what, got, expected)


def supported(op, dtype):
    floating = dtype.kind in "fV"
    return {
        "min": dtype.kind != "c",
        "max": dtype.kind != "c",
        "avg": floating or dtype.kind == "c",
    }.get(op, op in ("sum", "prod") or dtype.kind in "biu")


def rows(shape):
    return shape[0] if shape else 1


def tail(shape):
    return shape[1:]


for dtype in TYPES:
    for op in ("sum", "prod", "min", "max", "avg", *BITS, "land", "lor"):
        what = ("all_reduce", dtype, op)
        x = data(rank, (size * 3,), dtype)
        if not supported(op, dtype):
            try:
                group.all_reduce(x, op)
                raise SystemExit(f"{what} was not refused")
            except lycaon.ArgumentError as error:
                assert error.kind == "unsupported", error.kind
                continue
        if op == "avg" and size == 3:
            continue  # the sum is exact, the third of it is not: below, with a tolerance
        if op == "prod" and dtype.kind in "fVc":
            x = (x / 4).astype(dtype) if dtype.kind != "c" else x
            parts = [data(of, (size * 3,), dtype) for of in range(size)]
            parts = [(p / 4).astype(dtype) if dtype.kind != "c" else p for p in parts]
        else:
            parts = everyone((size * 3,), dtype)
        with np.errstate(over="ignore"):
            same(group.all_reduce(x, op), reduction(op, parts, dtype), what)

    for salt, shape in enumerate(SHAPES):
        x = data(rank, shape, dtype, salt)
        before = x.copy()
        parts = everyone(shape, dtype, salt)
        total = reduction("sum", parts, dtype)
        joined = np.concatenate([part.reshape((rows(shape), *tail(shape))) for part in parts])
        what = (dtype, shape)

        same(group.all_reduce(x), total, ("all_reduce", what))
        same(group.scan(x), reduction("sum", parts[: rank + 1], dtype), ("scan", what))
        same(group.all_gather(x), joined, ("all_gather", what))
        root = salt % size
        same(group.broadcast(x, root), parts[root], ("broadcast", what))
        got = group.reduce(x, "sum", root)
        assert (got is None) == (rank != root), what
        if rank == root:
            same(got, total, ("reduce", what))
        got = group.gather(x, root)
        assert (got is None) == (rank != root), what
        if rank == root:
            same(got, joined, ("gather", what))

        if rows(shape) % size == 0:
            block = rows(shape) // size
            own = slice(rank * block, (rank + 1) * block)
            cut = total.reshape((rows(shape), *tail(shape)))
            same(group.reduce_scatter(x), cut[own], ("reduce_scatter", what))
            whole = parts[root].reshape((rows(shape), *tail(shape)))
            if rank == root:
                got = group.scatter(x, root)
            elif salt % 2:
                got = group.scatter(None, root, shape=(block, *tail(shape)), dtype=dtype)
            else:
                got = np.empty((block, *tail(shape)), dtype)
                assert group.scatter(root=root, out=got) is got
            same(got, whole[own], ("scatter", what))
            if shape:
                expected = np.concatenate([part[own] for part in parts])
                same(group.all_to_all(x), expected, ("all_to_all", what))

        if size > 1:
            after, ahead = (rank + 1) % size, (rank - 1) % size
            same(group.send_recv(x, after, ahead, tag=salt), parts[ahead], ("send_recv", what))
            if rank == 0:
                assert group.send(x, 1, tag=3) is x
                same(group.recv_like(x, size - 1), parts[size - 1], ("recv_like", what))
            else:
                if rank == 1:
                    same(group.recv(shape, dtype, 0, tag=3), parts[0], ("recv", what))
                if rank == size - 1:
                    group.send(x, 0)
        assert x.tobytes() == before.tobytes(), ("an input was changed", what)

    # Counts that differ by rank: rank i has i + 1 rows.
    counts = [of + 1 for of in range(size)]
    parts = [data(of, (of + 1, 2), dtype) for of in range(size)]
    same(group.all_gather_v(parts[rank], counts), np.concatenate(parts), ("all_gather_v", dtype))
    got = group.gather_v(parts[rank], counts if rank == size - 1 else None, size - 1)
    if rank == size - 1:
        same(got, np.concatenate(parts), ("gather_v", dtype))
    else:
        assert got is None
    wholes = everyone((sum(counts), 2), dtype)
    own = slice(sum(counts[:rank]), sum(counts[: rank + 1]))
    total = reduction("sum", wholes, dtype)
    same(group.reduce_scatter_v(wholes[rank], counts), total[own], ("reduce_scatter_v", dtype))
    if rank == 0:
        got = group.scatter_v(wholes[0], counts)
    else:
        got = group.scatter_v(shape=(rank + 1, 2), dtype=dtype)
    same(got, wholes[0][own], ("scatter_v", dtype))
    # Rank a sends a + b rows to rank b.
    blocks = [[data(a * size + b, (a + b, 3), dtype) for b in range(size)] for a in range(size)]
    got = group.all_to_all_v(
        np.concatenate(blocks[rank]),
        [rank + b for b in range(size)],
        [a + rank for a in range(size)],
    )
    same(got, np.concatenate([blocks[a][rank] for a in range(size)]), ("all_to_all_v", dtype))

# Averages of three are rounded: within one unit of the last place.
for dtype in TYPES:
    if dtype.kind in "fVc":
        x = data(rank, (50,), dtype)
        mean = sum(part.astype(np.complex128) for part in everyone((50,), dtype)) / size
        got = group.all_reduce(x, "avg").astype(np.complex128)
        precise = ml_dtypes.finfo(dtype).eps if dtype.kind != "c" else np.finfo(dtype).eps
        assert np.allclose(got, mean, rtol=float(precise), atol=0), (dtype, got, mean)
        checks += 1

assert group.all_sum(1).tolist() == size
assert group.all_max(rank).tolist() == size - 1
assert group.all_min(rank + 2.5).tolist() == 2.5
assert group.all_gather(rank).tolist() == list(range(size))
assert group.all_reduce(True, "land").dtype == np.bool_
assert group.all_reduce(1j).tolist() == 1j * size
same(group.sum_scatter(np.arange(size)), np.array([rank * size]), "sum_scatter")
group.barrier()

kinds = {link.kind for link in group.links()}
print(f"checked {checks} over {','.join(sorted(kinds)) or 'nothing'}")
sys.exit(0)
