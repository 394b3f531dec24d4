"""Window calls: one order index for each large partition, and one way by which any change goes through it.

Design
------
A step of a partition with `n` rows takes edits, rows that come or go, and gives the rows of the output that go or come.

- `ordering`: the order of rows. `whole_partitions`: small partitions, and those of which much changes, are sorted and
  computed whole.
- `order_index`: the sorted rows of a large partition in `chunks` of about 2,048, with a directory: the first sort
  number of each chunk, running counts of its rows and peer groups, and summaries of its columns. `large_partitions`
  holds the indexes of an operator, and goes back to what they were where a step fails; spilled chunks are read when
  they are looked at first.
- `affected`: from edits to maximal runs of rows that may have other values, and the rows these look at; for all edits
  together.
- `early_stop`: how far from an edit it matters, to unbounded frames, and to rows that look for others by how many
  values or by an offset of their own.
- `changes`: excerpts of the runs as they are and as they will be are evaluated in one call, and compared; the output is
  not kept. `range_partitions` evaluates ranges of one partition apart from one another, for Spark.
- `frame`: the row ranges of frames, at most three for each row. `evaluate` and `aggregates` (`distinct` ones apart) are
  what values come from, of whole partitions and of excerpts alike.
- `summaries`: what stands for the rows outside of an excerpt, of frames that go on to an end of the partition, and the
  nearest values of calls that pass over NULLs.
- `scalar`: the one fast path, for values over a few rows: there a call of NumPy's costs more than its work.
- `on_close`: rows that come in order, given once no frame of theirs can change.

Mathematics
-----------
Let `k` rows change, of a partition in `c = n / 2048` chunks, and let frames look at `w` rows.

- A position is found in O(log c + log 2048), and so is a peer group by its number, and a number by its peer group: both
  are searches in running counts. An edit copies one chunk. The directory is changed in O(c), or made anew once a step.
- A row at position `p` is in the frames of rows from `p - after` to `p + before` for ROWS; of as many peer groups for
  GROUPS; of the values from `v - end` to `v - start` for RANGE. Neither bound falls as positions rise, so the runs of
  all edits are the gaps in running extremes of their bounds, found in O(k log n). All rows between the bounds of a run
  are evaluated: O(k w) of them at most, and never more than n.
- Ranks add the number of rows (or groups) that came before, less those that went. A run goes on while that is not zero.
- A frame is a range of positions less at most one hole, the row or its peers. So sums are differences of at most three
  prefix sums; int64 sums are exact modulo 2^64, whatever a prefix sum is, and floats are added up as whole numbers of a
  unit, two words if they are near each other, as Python's numbers if not. Extremes have no inverse: the greatest of any
  range is that of two runs of a power of two rows, which may overlap: O(w log w) for an excerpt.
- Summaries form a monoid: `together` is associative, with the summary of no rows as its identity, and not always
  commutative (first, last). A prefix of the chunks is summarised once, and anew from where a chunk changed.
- An edit matters to frames from the first row on as long as the summaries of a prefix differ with and without it. Those
  of extremes and of first and last rows become equal and stay so; sums that differ once differ for good.
"""
