"""The benchmarks of SQL: what they call the same answer, and that they find what is not."""

import math
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tidemill as tm
from benchmarks import kept as measured
from benchmarks import tpcdi
from benchmarks.answers import same_value, unmatched
from benchmarks.kept import Tables, kept
from benchmarks.nexmark import query
from benchmarks.planning import script
from benchmarks.workloads.nexmark import QUERIES
from benchmarks.workloads.tpcdi.files import Source


@pytest.mark.parametrize(
    "a, b, same",
    [
        (1, 1, True), (1, 2, False), (None, None, True), (None, 0, False), ("a", "a", True), ("a", "b", False),
        (1.0, 1.0 + 1e-10, True), (1.0, 1.0 + 1e-8, False), (math.nan, math.nan, True), (math.inf, math.inf, True),
        (Decimal("1.25"), Decimal("1.254999"), True), (Decimal("1.25"), Decimal("1.256"), False),
        (Decimal("0.333333"), 1 / 3, True), (Decimal("0.333334"), 1 / 3, False), (3, Decimal("3.0"), True),
        (Decimal(3), 4, False),
    ],
)  # fmt: skip
def test_values_of_two_systems(a, b, same):
    assert same_value(a, b) is same


def test_rows_that_only_one_answer_has():
    ours = [("x", 1.0, 1), ("x", 2.0, 1), ("y", None, 1), ("y", None, 1)]
    assert unmatched(ours, [("x", 2.0, 1), ("x", 1.0, 1), ("y", None, 1), ("y", None, 1)]) == ([], [])
    assert unmatched(ours, [("x", 2.0, 1), ("y", None, 1), ("z", 1.0, 1)]) == (
        [("x", 1.0, 1), ("y", None, 1)],
        [("z", 1.0, 1)],
    )


def steps(tables):
    yield "one", {"t": np.array([0, 3])}, {"t": tables.updated("t", np.array([1, 2]), "b")}
    yield "one", {"t": np.array([1, 2])}, {"t": np.array([0])}


@pytest.mark.parametrize("forgets", [False, True])
def test_an_answer_that_differs_is_found(monkeypatch, forgets):
    if forgets:
        monkeypatch.setattr(measured, "follow", lambda *_given: None)
    tables = Tables({"t": pa.table({"a": [1, 2, 3, 4], "b": [10, 20, 30, 40]})}, {"t": np.array([1, 1, 1, 1], bool)})
    found = kept("SELECT a, sum(b) FROM t GROUP BY a", tables, steps(tables), 1)
    assert (found["wrong"] > 0) is forgets
    assert (found["answer_rows"], tables.rows["t"].num_rows) == (4, 6)
    assert tables.there["t"].tolist() == [True, False, False, False, True, True]
    assert tables.rows["t"]["b"].to_pylist()[4:] == [30, 20]


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_queries_of_nexmark_are_what_a_database_computes_anew(name):
    found = query(name, 3000, 100, 5)
    assert (found["wrong"], found["answer_rows"] > 0) == (0, True)


def test_the_script_of_many_views_is_read():
    flow = tm.Dataflow.from_sql(script(12))
    assert list(flow.graph.inputs) == ["sales", "items", "shops"]


@pytest.mark.slow
def test_tpc_di_is_what_a_database_computes_anew():
    """All views as outputs, bronze and silver too, after each of three batches, the last of which changes a tenth."""
    flow = tm.Dataflow("tpcdi")
    flow.sql(tpcdi.script().replace("CREATE VIEW", "CREATE MATERIALIZED VIEW"), dialect="duckdb")
    names = list(flow.graph.outputs)
    with flow.start() as run, duckdb.connect() as judge:
        for batch, (gone, come) in enumerate(tpcdi.batches(Source(0.003), [0.1], flow), 1):
            assert tpcdi.step(run, gone, come, names) > 0
            tpcdi.anew(judge, gone, come, batch)
            assert tpcdi.differing(run, judge, names) == []
        assert [n for n in names if not len(run.snapshot(n))] == []
        judge.execute("DELETE FROM gold.most_watched WHERE watches = (SELECT max(watches) FROM gold.most_watched)")
        assert [text.partition(":")[0] for text in tpcdi.differing(run, judge, names)] == ["gold.most_watched"]
    assert len(names) == 48
