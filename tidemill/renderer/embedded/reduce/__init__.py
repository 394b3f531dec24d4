"""Reduce: the operator, and what it computes for each group: aggregates, the first rows, a user's function."""
