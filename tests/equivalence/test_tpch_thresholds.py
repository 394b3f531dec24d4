"""TPC-H Q11 and Q22, which filter by an aggregate, are kept up to date as rows of every table come and go."""

import numpy as np
import pyarrow as pa
import pytest
from support.tpch import by_duckdb, rows_of, tables

import tidemill as tm
from benchmarks.workloads.thresholds import QUERIES

SCALE = 0.01


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_answers_are_those_of_duckdb_after_each_change(name, tmp_path):
    columns, query, answer = QUERIES[name]
    whole = {table: t.select(list(columns[table])) for table, t in tables(tmp_path, SCALE, *columns).items()}
    flow = tm.Dataflow(name)
    flow.output("answer", answer(tm, **{table: flow.input(table, c) for table, c in columns.items()}))
    rng = np.random.default_rng(11)
    here = {table: rng.random(t.num_rows) < 0.8 for table, t in whole.items()}
    sizes = set()
    with flow.start() as run:
        for table, t in whole.items():
            run.insert(table, t.filter(pa.array(here[table])))
        for moving in [*columns, *columns, None]:
            run.advance()
            left = {table: t.filter(pa.array(here[table])) for table, t in whole.items()}
            found, expected = run.snapshot("answer").to_arrow(), by_duckdb(query, **left)
            assert rows_of(found) == [tuple(row) for row in rows_of(expected.select(found.column_names))]
            sizes.add(found.num_rows)
            if moving is not None:
                changed = rng.random(len(here[moving])) < (0.05 if moving != "nation" else 0.5)
                run.delete(moving, whole[moving].filter(pa.array(changed & here[moving])))
                run.insert(moving, whole[moving].filter(pa.array(changed & ~here[moving])))
                here[moving] ^= changed
    assert max(sizes) > 0
    assert any("OrderedDynamicFilter" in line for line in flow.explain(passes=True).splitlines())
