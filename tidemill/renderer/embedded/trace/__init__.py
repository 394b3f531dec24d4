"""Traces: the updates that operators remember.

A trace is a `Spine` (`spine`): a stack of immutable sorted batches (`batch`), merged with bounded effort at each step
(`merging`), to be looked up by key. What a step appends joins the step's `Transaction` (`transaction`), which commits
or rolls back all state at once. Updates at times beyond the frontier are `pending`, by time, until a later step takes
them. With an order by any columns (`row_order`) the updates of a key lie sorted in each batch, so that the first rows
of a large group are read without the others (`ordered_groups`).
"""
