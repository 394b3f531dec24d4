"""What operators remember of their updates.

A trace is a `Spine` (`spine`): a stack of immutable sorted batches (`batch`), merged with bounded effort at each step
(`merging`), to be looked up by key. What a step appends joins the step's `Transaction` (`transaction`), which commits
or rolls back all state at once. Updates at times beyond the frontier are `pending`, by time, until a later step takes
them. `order_index` is a secondary index of a spine for large groups: the rows of each in order (`sorted_rows`), by any
columns (`row_order`), with rank and select.
"""
