"""Groups within groups: ranks as a grid whose rows and columns are groups of their own."""

import lycaon

# Ranks in one row of the grid.
WIDTH = 2

group = lycaon.init()
rank = group.rank()
row, column = divmod(rank, WIDTH)

# Ranks of one colour form a group; the key says their order in it.
across = group.split(row, column)
down = group.split(column, row)

row_sum = int(across.all_reduce(rank + 1))
column_sum = int(down.all_reduce(rank + 1))

# A rank may stay out.
corner = group.split(0 if row == 0 else None)
place = "stays out" if corner is None else f"is {corner.rank()} of {corner.size()}"

print(
    f"rank {rank}: row {list(across.members)} sums to {row_sum}, "
    f"column {list(down.members)} sums to {column_sum}; of the first row it {place}"
)
