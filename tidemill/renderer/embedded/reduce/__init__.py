"""Reduce: the operator, and the logics that say what it computes for a group.

`operator` turns a logic's desired output into corrections of what was produced before. The logics are `aggregates`
(SQL's aggregate functions), `top_k` (the first rows in an order) and `user_reduce` (a Python function). The first two
keep accumulators, each a spine of its own: `accumulators` has what they share and the exact float sums, `integer_sums`
those that add up as weights, `values` and `ordered_values` those that need the rows themselves, kept by `group_rows`,
which holds large groups in order. Window calls at top level have an operator of their own, `ordered_windows`; in loops
they are a logic, `windows_in_loops`.
"""
