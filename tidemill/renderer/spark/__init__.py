"""The Spark renderer: dataflows as DataFrames, for data beyond one machine.

Only the public DataFrame API is used, so it runs over Spark Connect as well. Catalyst computes expressions, joins and
aggregates where they mean the same in Spark; where they do not, or where times are partially ordered, the embedded
engine's own kernels run in the executors, on whole partitions at a time.

A whole history is rendered by `render`, which takes one `step`: it walks the graph, round by round in loops, with a
`frames.Frame` of updates for each node. What a node is rendered to is in `linear` (one update at a time), `join`,
`native` (distinct and aggregates in Catalyst), `native_windows` and `keyed` (all of these by the kernels).
`exact_floats` has Catalyst add up floats and their squares without roundings.
`row_tasks`, `keyed_tasks`, `window_tasks` and `range_tasks` are what runs in the executors' Python, by way of `tasks`.
`state` keeps what operators remember from round to round, `usage` tells what of a graph has to be computed and stored
at all. `strategy` decides what Catalyst is trusted with; `retries` takes a step again, with more care or because
executors were lost, and `failures` brings errors back from executors. `dataframes` checks what users hand in and what
they promise; `scalars` and `types` put expressions and types into Spark SQL.
`explain` shows the plans of all jobs. `session` and `java` are about the session itself. Live runs, kept up to
date step by step, are in `live`.
"""
