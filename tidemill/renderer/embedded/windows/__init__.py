"""Window calls recomputed: all rows of many partitions at once, in arrays.

`recompute` is the way in, a pure function over arrays, and `reduce.windows` the logic that asks it. `ordering` sorts
the rows, and `sorting` finds places among sorted values; `partitions` has the sorted rows, where partitions and peer
groups begin, and the columns that calls read; `frames` finds each row's frame, for RANGE by `ranges`. The others
compute values: `rankings`, `offsets` (lag, lead), `values` (first, last, nth), `aggregates` and what these are made of:
`sums`, exact, over the frame or its distinct values (`distinct`), `extremes` and `lists`.
"""
