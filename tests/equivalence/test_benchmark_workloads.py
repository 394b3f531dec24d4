"""The workloads that are measured with small changes: each engine makes the whole change, and answers what DuckDB does."""

from __future__ import annotations

from itertools import islice

import pyarrow as pa
import pytest

from benchmarks.engines import Engine
from benchmarks.engines.embedded import Embedded
from benchmarks.engines.recomputed import Recomputed
from benchmarks.measure import digest
from benchmarks.workload import Change
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.windows import MeanOnClose

SCALES = {"W1": 0.01, "W2": 0.01, "W4": 0.01, "W4s": 0.02, "W7": 0.002, "W8": 0.002, "W9": 0.002, "W10": 0.005}
SCALES |= {"W12": 0.01, "W13": 0.002}


@pytest.mark.parametrize("name", SCALES)
def test_small_changes_give_what_duckdb_gives(name):
    workload = WORKLOADS[name](SCALES[name])
    engines: list[Engine] = [Embedded(workload), Recomputed(workload)]
    tables = workload.tables()
    for engine in engines:
        engine.load(tables)
    for changes in islice(workload.steps(tables), 12):
        for engine in engines:
            engine.prepare(changes)
            engine.step(changes)
    ours, theirs = (digest(engine.contents()) for engine in engines)
    assert ours == theirs
    assert ours["rows"]
    for engine in engines:
        engine.close()


def test_rows_are_put_in_and_taken_out_of_duckdb_several_at_a_time():
    engine = Recomputed(WORKLOADS["W1"](0.01))
    engine.load({"events": pa.table({"k": [1, 1, 2, 3]})})
    for rows, sign in (([(4,), (4,), (5,)], 1), ([(1,), (4,), (2,)], -1)):
        changes = [Change("events", rows, sign)]
        engine.prepare(changes)
        engine.step(changes)
    assert sorted(engine.connection.sql("FROM events").fetchall()) == [(1,), (3,), (4,), (5,)]
    engine.close()


def test_of_a_stream_on_close_nothing_is_kept_but_the_answer():
    workload = MeanOnClose(0.005)
    engine = Embedded(workload)
    tables = workload.tables()
    engine.load(tables)
    for changes in islice(workload.steps(tables), 100):
        engine.step(changes)
    assert engine.answer_rows() == digest(engine.contents())["rows"] > 5_900
    assert engine.state_rows() - engine.answer_rows() < 600
    engine.close()
