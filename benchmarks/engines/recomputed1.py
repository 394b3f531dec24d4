"""DuckDB, recomputing with one thread, as a step of tidemill's uses; as ``duckdb1_other`` of another version."""

from functools import partial

from benchmarks.engines.recomputed import Recomputed

engine = partial(Recomputed, threads=1)
