"""``map_rows`` by the batch: what comes of it is what comes of its rows, one by one."""

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

import tidemill as tm
from tidemill.dataflow.nodes import FlatMap
from tidemill.errors import UserFunctionError
from tidemill.renderer.runs.user_functions import mapped_rows
from tidemill.renderer.spark.row_tasks import mapped_at_once, row_task

MADE = {
    "i": "int64", "f": "float64", "b": "bool", "s": "string", "n": "int64 not null", "j": "int32", "d": "date",
    "e": "decimal(9,2)",
}  # fmt: skip
USUAL = {
    "i": st.integers(-(2**63) + 1, 2**63 - 1) | st.none(), "f": st.floats() | st.none(), "b": st.booleans() | st.none(),
    "s": st.text() | st.none(), "n": st.integers(-9, 9), "j": st.integers(-9, 9) | st.none(),
    "d": st.dates() | st.none(), "e": st.sampled_from([decimal.Decimal("1.5"), None]),
}  # fmt: skip
ODD = st.sampled_from(
    [None, 1, 2.0, -(2**63), 2**70, -0.0, "x", "\ud800", b"x", True, np.int64(3), np.float64(-0.0), np.bool_(True),
     float("nan"), decimal.Decimal(2), dt.datetime(2020, 1, 1), dt.date(2020, 1, 1), (1,)]
)  # fmt: skip
ROWS = st.lists(st.tuples(*USUAL.values()), min_size=1, max_size=5)


def node_of(function, given=None, made=None):
    flow = tm.Dataflow("maps")
    flow.output("o", flow.input("x", given or {"at": "int64"}).map_rows(function, made or MADE))
    return next(n for n in flow.graph.nodes if isinstance(n, FlatMap))


@examples(200)
@given(rows=ROWS, odd=ODD, column=st.integers(-1, len(MADE) - 1))
def test_a_batch_gives_what_its_rows_give(rows, odd, column):
    if column >= 0:
        rows = [(*rows[0][:column], odd, *rows[0][column + 1 :]), *rows]
    node = node_of(lambda row: rows[row.at])
    found = mapped_at_once(node, [pa.array(range(len(rows)))], len(rows))
    try:
        one_by_one = [mapped_rows(node, (at,))[0] for at in range(len(rows))]
    except UserFunctionError:
        assert found is None
        return
    columns = [pa.array(c, f.dtype.arrow) for c, f in zip(zip(*one_by_one, strict=True), node.schema, strict=True)]
    assert [repr(c.to_pylist()) for c in found] == [repr(c.to_pylist()) for c in columns]  # -0.0 is not 0.0


@pytest.mark.parametrize(
    "values", [[1.5, -0.0, None], [float("nan"), -0.0], [1, 2], ["a", None], [True, False]], ids=repr
)
def test_a_function_gets_canonical_values(values):
    array = pa.array(values)
    kind = {"double": "float64", "int64": "int64", "string": "string", "bool": "bool"}[str(array.type)]
    node = node_of(lambda row: (repr(row), type(row.x).__name__), {"x": kind}, {"r": "string", "t": "string"})
    found = mapped_at_once(node, [array], len(values))
    rows = [(v + 0.0 if isinstance(v, float) else v,) for v in values]
    assert list(zip(*(c.to_pylist() for c in found), strict=True)) == [mapped_rows(node, r)[0] for r in rows]


def test_times_and_diffs_that_are_all_the_same_stay_where_they_are():
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2])], names=["c0"])
    node = node_of(lambda row: (6 // (3 - row.at),), made={"b": "int64"})
    assert [batch.to_pydict() for batch in row_task(node, 1, (7,))(iter([rows]))] == [{"c0": [3, 6]}]
    wrong = node_of(lambda row: (6 // (2 - row.at),), made={"b": "int64"})
    with pytest.raises(UserFunctionError, match="division") as caught:
        list(row_task(wrong, 1, (7,))(iter([rows])))
    assert caught.value.time == 7


def test_what_is_made_of_rows_is_at_their_time_and_there_once(spark):
    flow = tm.Dataflow("maps")
    rows = flow.input("x", {"a": "int64"})
    flow.output("mapped", rows.map_rows(lambda row: (row.a + 1,), {"b": "int64"}))
    flow.output("many", rows.flat_map(lambda row: [(row.a,)] * row.a, {"b": "int64"}))
    flow.output("counted", rows.map_rows(lambda row: (row.a % 2,), {"b": "int64"}).group_by("b").agg(n=tm.count()))
    found = tm.render(flow, spark, {"x": spark.sql("SELECT * FROM VALUES (1L), (2L), (2L) AS (a)")})
    assert {name: sorted(map(tuple, data.collect())) for name, data in found.items()} == {
        "mapped": [(2, 0, 1), (3, 0, 1), (3, 0, 1)],
        "many": [(1, 0, 1), *[(2, 0, 1)] * 4],
        "counted": [(0, 2, 0, 1), (1, 1, 0, 1)],
    }


def test_rows_by_name_and_dicts_are_taken(spark):
    flow = tm.Dataflow("maps")
    rows = flow.input("x", {"a": "int64", "b": "float64"})
    flow.output("same", rows.map_rows(lambda row: row, {"b": "float64", "a": "int64"}))
    flow.output("dicts", rows.map_rows(lambda row: {"k": row.a}, {"k": "int64"}))
    given = {"x": [((1, -0.5), 0, 1), ((2, None), 1, 1), ((None, 2.5), 2, -1)]}
    tm.testing.check_equivalent(flow, given, engines=["reference", "spark"], batchings=[tm.testing.all_at_once])
