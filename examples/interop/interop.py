"""A rank of a group whose ranks are written in different languages; see README.md."""

import numpy as np

import lycaon


def values(rank: int, count: int) -> np.ndarray:
    """What a rank has. Divided by 7, so that the order of a sum shows in its bits."""
    return ((np.arange(count) * 37 + rank * 101) % 1009).astype(np.float32) / np.float32(7)


def checksum(data: np.ndarray) -> str:
    """FNV-1a."""
    digest = 0xCBF29CE484222325
    for byte in data.tobytes():
        digest = (digest ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{digest:016x}"


def ring(group: lycaon.Group) -> str:
    rank, size = group.rank(), group.size()
    after, before = (rank + 1) % size, (rank - 1) % size
    mine = values(rank, 1000)
    everybody = group.all_gather(mine + group.send_recv(mine, after, before, tag=1))

    baton = np.zeros(4, np.float32)
    if rank > 0:
        baton = group.recv_like(baton, before, tag=2)
    baton += values(rank, 4)
    group.send(baton, after, tag=2)
    if rank == 0:
        baton = group.recv_like(baton, before, tag=2)
    return checksum(np.concatenate([everybody, group.broadcast(baton, 0)]))


def split(group: lycaon.Group) -> str:
    part = group.split(group.rank() % 2, -group.rank())
    total = part.all_reduce(values(group.rank(), 100))
    place = np.array([part.rank(), part.size()], np.float32)
    return checksum(group.all_gather(np.concatenate([total, place])))


def main() -> None:
    group = lycaon.init()
    total = group.all_reduce(values(group.rank(), 5000))
    thirds = group.all_gather(values(group.rank(), 3).astype(np.float64) / 3)
    print(
        f"rank {group.rank()} Python all_reduce {checksum(total)} all_gather {checksum(thirds)} "
        f"ring {ring(group)} split {split(group)}"
    )


if __name__ == "__main__":
    main()
