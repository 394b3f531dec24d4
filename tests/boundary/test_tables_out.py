"""What comes out speaks Arrow: to pandas, Polars, DuckDB, and to other runs."""

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from support.running import start

import tidemill as tm
from tidemill.errors import NegativeCountWarning, SchemaError

KSF = {"k": "int64", "s": "string", "f": "float64"}


@pytest.fixture
def run(engine):
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", KSF))
    with start(flow, engine) as started:
        started.update("x", [((1, "a", 0.5), 0, 2), ((2, None, None), 0, 1), ((1, "a", 0.5), 1, -1)])
        started.advance_to(2)
        yield started


ROWS = [(1, "a", 0.5), (2, None, None)]


def queried(result, sql):
    with duckdb.connect() as connection:
        connection.register("result", result)
        return connection.execute(sql).fetchall()


def test_rows_speak_arrow(run):
    rows = run.snapshot("x")
    assert pa.table(rows).equals(rows.to_arrow())
    assert rows.to_polars().equals(pl.DataFrame(rows))
    assert pl.DataFrame(rows).rows() == ROWS
    assert queried(rows, "select k, s, f from result order by k") == ROWS
    assert rows.to_pandas()["k"].tolist() == [1, 2]
    assert pa.RecordBatchReader.from_stream(rows).read_all().schema == tm.Schema.of(KSF).to_arrow()


def test_updates_speak_arrow(run):
    updates = run.changes("x")
    assert pa.table(updates).equals(updates.to_arrow())
    assert pl.DataFrame(updates).rows() == [(*row, time, diff) for row, time, diff in updates]
    assert queried(updates, "select sum(diff) from result") == [(2,)]
    assert updates.to_pandas().columns.tolist() == ["k", "s", "f", "time", "diff"]


def test_each_row_as_often_as_it_is_there(engine):
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"k": "int64"}))
    with start(flow, engine) as run:
        run.update("x", [((1,), 0, 3), ((3,), 0, 1)])
        run.advance()
        assert pa.table(run.snapshot("x")).to_pydict() == {"k": [1, 1, 1, 3]}


READERS = {
    "len": len, "bool": bool, "list": list, "Arrow": lambda rows: rows.to_arrow(), "Polars": lambda rows: rows.to_polars(),
    "pandas": lambda rows: rows.to_pandas(), "the interface": pa.table,
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
def test_what_is_left_out_for_its_negative_count_is_said(engine, reader):
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"k": "int64"}))
    with start(flow, engine) as run:
        run.insert("x", [(1,)])
        run.delete("x", [(2,), (2,), (3,)])  # never inserted
        run.advance()
        rows = run.snapshot("x")
        with pytest.warns(NegativeCountWarning, match=r"2 rows with a negative count are not among these: counts\(\)"):
            assert READERS[reader](rows) is not None
        assert rows.negative == 2
        assert rows.counts() == {(1,): 1, (2,): -2, (3,): -1}
        assert repr(rows).endswith("\n1\n(2 rows with a negative count are not shown: counts() has them)")
        assert "<caption>1 row at 0 (2 rows with a negative count are not shown" in rows.to_html()
        run.insert("x", [(2,), (2,), (3,)])
        run.advance()
        assert run.snapshot("x").negative == 0
        assert len(run.snapshot("x")) == 1
        assert repr(run.snapshot("x")).endswith("\n1")


def test_one_runs_rows_are_anothers_input(run, engine):
    flow = tm.Dataflow()
    flow.output("y", flow.input("y", {"f": "float64", "k": "int64", "s": "string"}))
    with start(flow, engine) as other:
        other.insert("y", run.snapshot("x"))  # by name
        other.advance()
        assert sorted((k, s, f) for f, k, s in other.snapshot("y")) == ROWS
        other.update("y", [((f, k, s), time + 1, diff) for (k, s, f), time, diff in run.changes("x")])


def test_clashing_names_are_an_error(run):
    updates = run.changes("x")
    with pytest.raises(SchemaError, match="clash: rename them with time= and diff="):
        updates.to_arrow(diff="k")
    assert updates.to_arrow(time="t", diff="d").column_names == ["k", "s", "f", "t", "d"]


def test_pandas_rounds_no_whole_numbers(engine):
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"i": "int64", "j": "int32", "b": "bool", "n": "int64"}))
    with start(flow, engine) as run:
        run.insert("x", [(2**53 + 1, 1, True, 1), (None, None, None, 2)])
        run.advance()
        frame = run.snapshot("x").to_pandas()
    assert [str(t) for t in frame.dtypes] == ["Int64", "Int32", "boolean", "int64"]
    assert frame["i"].tolist()[1] == 2**53 + 1


def test_empty_results(engine):
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", KSF))
    with start(flow, engine) as run:
        run.advance()
        for result in (run.snapshot("x"), run.changes("x")):
            assert len(pa.table(result)) == len(pl.DataFrame(result)) == len(result.to_pandas()) == 0
            assert pa.table(result).schema.names[:3] == list(KSF)


def held(rows):
    return [c.chunk(0).buffers()[1].address for c in rows._table.columns]


def test_what_is_sorted_goes_out_without_a_copy(engine):
    """Rows are put in order when first looked at, unless they are; what is given out then is what is held."""
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"i": "int64"}))
    flow.output("y", flow.input("y", {"i": "int64", "f": "float64"}))
    with start(flow, engine) as run:
        run.insert("x", pa.table({"i": np.arange(1000)}))
        run.insert("y", pa.table({"i": np.arange(1000), "f": np.arange(1000.0)}))
        run.advance()
        one, two = run.snapshot("x"), run.snapshot("y")
    before = held(one)
    for rows in (one, two):
        given = rows.to_arrow()
        assert [c.chunk(0).buffers()[1].address for c in given.columns] == held(rows)
        assert not given.column("i").chunk(0).to_numpy().flags.writeable
    assert held(one) == before
