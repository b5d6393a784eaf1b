"""Every rank gives a vector; all get the sum, the maximum and the mean."""

import numpy as np

import lycaon

with lycaon.init() as group:
    mine = np.arange(4, dtype=np.float32) + 10 * group.rank()

    # In place: the result replaces the data.
    total = mine.copy()
    group.all_reduce(total, in_place=True)

    # From one array into another.
    largest = np.empty_like(mine)
    group.all_reduce(mine, "max", out=largest)

    # Into a new array, which is the default.
    mean = group.all_reduce(mine, "avg")

    print(
        f"rank {group.rank()} of {group.size()}: "
        f"sum {total.tolist()}, max {largest.tolist()}, mean {mean.tolist()}"
    )
