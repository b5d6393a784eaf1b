"""Reduces the gradients of each layer in the background while the next layer is computed."""

import numpy as np
from numpy.typing import NDArray

import lycaon

LAYERS = 6
WEIGHTS = 50_000


def gradient(rank: int, layer: int) -> NDArray[np.float32]:
    """Stands for the backward pass of one layer."""
    return ((np.arange(WEIGHTS) + layer) % 97 + rank).astype(np.float32)


group = lycaon.init()
rank, size = group.rank(), group.size()

# An operation in the background keeps its arrays until it has ended.
pending = []
for layer in reversed(range(LAYERS)):
    pending.append((layer, group.all_reduce_async(gradient(rank, layer))))

for layer, work in pending:
    total = work.wait()
    expected = sum(gradient(other, layer) for other in range(size))
    assert (total == expected).all(), layer

print(f"rank {rank}: {len(pending)} layers of {WEIGHTS} gradients reduced in the background")
