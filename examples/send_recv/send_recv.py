"""Messages between two ranks: one that goes round all ranks, and a shift where everybody sends and
receives at the same time."""

import sys

import numpy as np

import lycaon

# Messages with different tags do not wait for one another.
BATON = 1
SHIFT = 2

group = lycaon.init()
rank, size = group.rank(), group.size()
if size == 1:
    print("one rank has nobody to write to")
    sys.exit()
after, before = (rank + 1) % size, (rank - 1) % size

# Each rank writes its number into the baton and hands it on.
if rank == 0:
    baton = np.full(size, -1)
    baton[0] = 0
    group.send(baton, after, tag=BATON)
    baton = group.recv_like(baton, before, tag=BATON)
    print(f"the baton came back as {baton.tolist()}")
else:
    baton = group.recv((size,), int, before, tag=BATON)
    baton[rank] = rank
    group.send(baton, after, tag=BATON)

# All at once: send and receive together, or a ring of ranks would wait for itself.
mine = np.full(100_000, rank + 0.5)
got = group.send_recv(mine, after, before, tag=SHIFT)
assert (got == before + 0.5).all()

messages = sum(record.operation == "send_recv" for record in group.flight_recorder())
print(f"rank {rank} got {got[0]} from rank {before} in {messages} exchange")
