"""Kernels on arrays of updates: codes for values, times, consolidation, hashing, exact sums. No state, no operators."""
