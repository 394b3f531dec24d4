"""Tables of updates: with columns of time and diff, they go in as the triples do that they say.

The kind: whatever tells rows with times and diffs in columns, of results of runs too, is taken where triples are.
"""

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples, start

import tidemill as tm
from tidemill.errors import RowError, SchemaError, TimeError

SCHEMA = {"k": "int64", "s": "string"}
ROWS = st.tuples(st.sampled_from([None, 0, 1]), st.sampled_from([None, "a", "é"]))
DIFFS = st.sampled_from([-2, -1, 1, 1, 3])
MAKES = {
    "arrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get),
    "polars": pl.from_arrow,
    "batches": lambda table: pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
}


def new_flow(coordinates=1, schema=SCHEMA):
    flow = tm.Dataflow("f") if coordinates == 1 else tm.Dataflow("f", time=("event", "seen"))
    flow.output("o", flow.input("x", schema))
    return flow


def table_of(updates, names):
    columns = [[row[0] for row, _, _ in updates], [row[1] for row, _, _ in updates]]
    columns += [list(c) for c in zip(*(t for _, t, _ in updates))] or [[] for _ in names]
    types = [pa.int64(), pa.string(), *[pa.int64()] * (len(names) + 1)]
    arrays = [pa.array(c, t) for c, t in zip([*columns, [d for _, _, d in updates]], types, strict=True)]
    return pa.table(arrays, ["k", "s", *names, "diff"])


@pytest.mark.parametrize("coordinates", [1, 2])
@pytest.mark.parametrize("make", MAKES)
def test_they_are_the_triples_that_they_say(engine, make, coordinates):
    times = st.tuples(*[st.integers(0, 2)] * coordinates)
    names = ["time"] if coordinates == 1 else ["event", "seen"]
    end = 3 if coordinates == 1 else (3, 3)

    @examples(10)
    @given(st.lists(st.tuples(ROWS, times, DIFFS), max_size=6))
    def check(updates):
        triples = [(row, t[0] if coordinates == 1 else t, d) for row, t, d in updates]
        with start(new_flow(coordinates), engine) as right, start(new_flow(coordinates), engine) as run:
            right.update("x", triples)
            run.update("x", MAKES[make](table_of(updates, names)).select(["diff", *names, "s", "k"])
                       if make == "arrow" else MAKES[make](table_of(updates, names)))  # fmt: skip
            for r in (right, run):
                r.advance_to(end)
            found = run.changes("o")
            assert list(found) == list(right.changes("o"))
        with start(new_flow(coordinates), engine) as run:  # and what came out, in again
            run.update("x", MAKES[make](found.to_arrow()))
            run.advance_to(end)
            assert list(run.changes("o")) == list(found)

    check()


def test_results_go_by_position():
    """They are triples, whatever their columns are called."""
    with new_flow().start() as run, new_flow(schema={"a": "int64", "b": "string"}).start() as other:
        run.insert("x", [(1, "a")])
        run.advance()
        changes = run.changes("o")
        other.update("x", changes)
        other.advance()
        assert list(other.changes("o")) == list(changes)


def test_files_and_other_names(tmp_path):
    flow = new_flow(schema={"time": "int64", "s": "string"})
    table = pa.table({"time": [7, 8], "s": ["a", "b"], "at": [1, 0], "n": [2, -1]})
    pq.write_table(table, tmp_path / "x.parquet")
    with flow.start() as run:
        run.update("x", tm.read_parquet(tmp_path / "x.parquet"), time="at", diff="n")
        with pytest.raises(
            SchemaError, match=r"columns \['time', 's', 'time', 'diff'\] clash: rename them with time= and"
        ):
            run.update("x", table)
        run.advance_to(2)
        assert list(run.changes("o")) == [((8, "b"), 0, -1), ((7, "a"), 1, 2)]


def test_rows_without_columns(engine):
    """How many there are is not told by their columns, nor what is read of an output of such rows."""
    with start(new_flow(schema={}), engine) as run:
        run.update("x", pa.table({"time": [0, 1], "diff": [2, 3]}))
        run.advance_to(2)
        assert list(run.changes("o")) == [((), 0, 2), ((), 1, 3)]
        assert list(run.snapshot("o")) == [()] * 5


GOOD = pa.table({"k": [1, 2], "s": ["a", "b"], "time": [3, 4], "diff": [1, -1]})


@pytest.mark.parametrize(
    ("updates", "kind", "text"),
    [
        (GOOD.drop_columns(["diff"]), RowError, "'diff' is missing: add it"),
        (GOOD.drop_columns(["time"]), RowError, "'time' is missing: add it"),
        (GOOD.append_column("x", [[1, 2]]), RowError, "too many: 'x': drop or rename"),
        (GOOD.set_column(3, "diff", [[1, 2**31 + 1]]), RowError, "row 1: column 'diff' is 2147483649: expected an integer of"),
        (GOOD.set_column(3, "diff", [[1, None]]), RowError, "row 1: column diff: int64 not null is NULL"),
        (GOOD.set_column(2, "time", [[1.5, 2]]), RowError, "row 0: column time: int64 not null: Float value 1.5"),
        (GOOD.set_column(2, "time", [[3, 1]]), TimeError, "time 1 is not beyond its frontier Antichain(2)"),
        (GOOD.set_column(2, "time", [[3, -1]]), TimeError, "-1 is not a time here"),
        (GOOD.set_column(0, "k", [["a", "b"]]), RowError, "column 'k' has Arrow type string"),
        (pl.LazyFrame({"k": [1]}), RowError, "a table with the columns k, s, time, diff; collect() it first"),
        ({"k": 1}, RowError, "dict holds no updates: expected (row, time, diff) triples, or a table"),
        (7, RowError, "int holds no updates"),
    ],
)  # fmt: skip
def test_what_is_refused_leaves_no_trace(updates, kind, text):
    with new_flow().start() as run:
        run.advance_to(2)
        with pytest.raises(kind) as caught:
            run.update("x", updates)
        assert text in str(caught.value)
        assert caught.value.operator == "Input 'x'"
        run.update("x", GOOD.slice(1))
        run.advance_to(9)
        assert list(run.changes("o")) == [((2, "b"), 4, -1)]


def test_engines_are_compared_by_tables_too():
    tm.testing.check_equivalent(new_flow(), {"x": GOOD})
    with pytest.raises(RowError, match="'diff' is missing"):
        tm.testing.check_equivalent(new_flow(), {"x": GOOD.drop_columns(["diff"])})


def test_inputs_with_a_key_take_none():
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", SCHEMA, key="k"))
    with flow.start() as run, pytest.raises(RowError, match="has a key: use upsert and delete"):
        run.update("x", GOOD)


def test_a_durable_run_goes_on_with_them(tmp_path):
    with new_flow().start(tm.Embedded(tmp_path)) as run:
        run.update("x", GOOD)
        run.advance()
    with new_flow().start(tm.Embedded(tmp_path)) as run:
        run.advance_to(9)
        assert list(run.changes("o")) == [((1, "a"), 3, 1), ((2, "b"), 4, -1)]
