"""The embedded engine: columns in NumPy, arrangements as spines, in the user's own process.

`compile` makes operators of a graph, `schedule` says who runs when, `executor` takes steps and reads outputs, `state`
saves and restores all. The rooms: `kernels` on arrays, `trace` for state, `operators`, `reduce`, `expressions`.
"""
