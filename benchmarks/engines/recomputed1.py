"""DuckDB, recomputing with one thread: what a step of tidemill's uses, too."""

from functools import partial

from benchmarks.engines.recomputed import Recomputed

engine = partial(Recomputed, threads=1)
