"""What users of other libraries try first, and small slips: the error says what to do instead."""

import copy
import datetime as dt
import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.running import start

import tidemill as tm
from tidemill.collections.recursion import letrec
from tidemill.errors import (
    EngineError,
    GraphError,
    NegativeCountError,
    RowError,
    SchemaError,
    StateError,
    TidemillError,
    UnknownColumnError,
)

ROWS = {"k": "string", "Size": "int64", "day": "date", "f": "float64"}


@pytest.fixture
def flow():
    return tm.Dataflow("hints")


@pytest.fixture
def c(flow):
    made = flow.input("c", ROWS)
    flow.output("c", made)
    return made


def undefined(c):
    with letrec(c.builder) as block:
        block.declare("p", {"k": "int64"})


BUILDING = {
    "aggregates without names": (
        lambda c: c.group_by("k").agg(tm.count()),
        SchemaError,
        "agg(COUNT(*)): each aggregate needs a name, which is its column's: say it as in agg(n=tm.count())",
    ),
    "aggregates of all without names": (lambda c: c.agg("sum(Size)"), SchemaError, "as in agg(n=tm.count())"),
    "aggregates with an alias": (
        lambda c: c.agg(tm.sum("Size").alias("total")), SchemaError, "say it as in agg(total=...)",
    ),
    "groupby": (lambda c: c.groupby("k"), AttributeError, "Collection has no 'groupby': here it is group_by(...)"),
    "groupBy": (lambda c: c.groupBy("k"), AttributeError, "here it is group_by(...)"),
    "where": (lambda c: c.where("f > 1"), AttributeError, "Collection has no 'where': here it is filter(condition)"),
    "union": (lambda c: c.union(c), AttributeError, "concat(other), and concat(other).distinct() for SQL's UNION"),
    "sort": (lambda c: c.sort("f"), AttributeError, "'sort': a collection has no order: group_by(...).top_k(k, order_by"),
    "orderBy": (lambda c: c.orderBy("f"), AttributeError, "a collection has no order"),
    "limit": (lambda c: c.limit(3), AttributeError, "a collection has no order"),
    "withColumn": (lambda c: c.withColumn("x", "f"), AttributeError, "here it is with_columns(name=expression)"),
    "merge": (lambda c: c.merge(c), AttributeError, "here it is join(other, on=...)"),
    "collect": (lambda c: c.collect(), AttributeError, "holds no rows itself: flow.output('name', it), then run.snap"),
    "columns": (lambda c: c.columns, AttributeError, "here it is schema, and schema.names"),
    "a misspelt method": (lambda c: c.fliter("f > 1"), AttributeError, "'fliter': did you mean 'filter'"),
    "a column as an attribute": (lambda c: c.day, AttributeError, "a column is written tm.col('day'), or 'day' where"),
    "sums of groups": (lambda c: c.group_by("k").sum("f"), AttributeError, "here it is agg(n=tm.sum('x'))"),
    "sizes of groups": (lambda c: c.group_by("k").size(), AttributeError, "here it is agg(n=tm.count())"),
    "filters of groups": (lambda c: c.group_by("k").where("f > 1"), AttributeError, "Grouped has no 'where'"),
    "chained comparisons": (
        lambda c: c.filter(1 < tm.col("f") < 3), SchemaError,
        "`(low < x) & (x < high)` for `low < x < high`",
    ),
    "a DataFrame": (
        lambda c: c.filter(pd.DataFrame({"a": [1]})), SchemaError,
        "a DataFrame (of pandas) stands where an expression is expected, such as 'x + 1' or tm.col('x'): put its rows in",
    ),
    "a frame of Polars": (lambda c: c.select(x=pl.DataFrame({"a": [1]})), SchemaError, "a DataFrame (of polars) stands"),
    "a Series": (lambda c: c.select(x=pd.Series([1])), SchemaError, "a Series (of pandas) stands where"),
    "an array": (lambda c: tm.col("f") + np.array([1]), SchemaError, "a ndarray (of numpy) stands where"),
    "an Arrow table": (lambda c: c.select(x=pa.table({"a": [1]})), SchemaError, "a Table (of pyarrow) stands where"),
    "a collection": (lambda c: c.filter(c), SchemaError, "a Collection (of tidemill) stands where an expression"),
    "a DataFrame as an aggregate": (
        lambda c: c.agg(n=pd.DataFrame({"a": [1]})), SchemaError, "a DataFrame (of pandas) stands where an expression is",
    ),
    "a DataFrame in a join": (
        lambda c: c.join(pd.DataFrame({"k": ["a"]}), on="k"), GraphError,
        "join: a DataFrame (of pandas) is not a collection of this dataflow; put its rows in by flow.input(...) or flow.",
    ),
    "a column of another case": (
        lambda c: c.select("size"), UnknownColumnError, "did you mean 'Size'? Upper and lower case are different here",
    ),
    "one letter of another case": (
        lambda c: c.drop("K"), UnknownColumnError, "did you mean 'k'? Upper and lower case are different here",
    ),
    "decimals of SQL text": (
        lambda c: c.select("f").concat(c.select(f="Size * 0.5")), SchemaError,
        "might lose something: cast one, as in col('f').cast('float64'); in SQL text 0.1 is a decimal, and 0.1e0 a float64",
    ),
    "a join of everything": (
        lambda c: c.join(c, on=[]), SchemaError, "join: on=[] names no key: cross_join(other) is what gives all pairs",
    ),
    "an outer join of everything": (lambda c: c.join(c, on={}, how="left"), SchemaError, "on={} names no key"),
    "an undefined binding": (undefined, GraphError, "has no definition: define 'p' before the end of the block"),
}  # fmt: skip


@pytest.mark.parametrize("what", BUILDING)
def test_building(c, what):
    build, kind, text = BUILDING[what]
    with pytest.raises(kind, match=re.escape(text)):
        build(c)


def test_an_undefined_binding_is_reported_at_the_users_line(c):
    with pytest.raises(GraphError) as caught:
        undefined(c)
    assert caught.value.site.file == __file__
    assert caught.value.site.source == "with letrec(c.builder) as block:"
    assert "contextlib" not in str(caught.value)


def test_a_condition_may_be_all_that_a_join_has(engine, flow):
    a, b = (flow.constant({name: "int64"}, [(1,), (2,)]) for name in "ab")
    flow.output("pairs", a.join(b, on=[], where="a < b"))
    flow.output("some", a.join(b, on=[], how="semi"))
    with start(flow, engine) as run:
        assert list(run.snapshot("pairs")) == [(1, 2)]
        assert list(run.snapshot("some")) == [(1,), (2,)]


def test_what_others_look_for_on_a_collection_is_not_there(c):
    assert not hasattr(c, "_repr_png_")
    assert not hasattr(c, "__array__")
    assert not hasattr(c, "shape")
    assert copy.copy(c).schema == c.schema


ENGINES = {
    "a name": ("spark", "flow.start('spark'): expected tm.Spark(spark) with a session, such as tm.local_spark()"),
    "another name": ("embedded", "expected no engine, or tm.Embedded(...), tm.Spark(spark), tm.Reference()"),
    "a class": (tm.Embedded, "expected an engine made of this class, as in flow.start(tm.Embedded())"),
    "Spark's class": (tm.Spark, "as in flow.start(tm.Spark(spark))"),
    "another class": (dict, "expected no engine, or tm.Embedded(...)"),
    "a session": (type("SparkSession", (), {})(), "expected tm.Spark(spark) with a session"),
}


@pytest.mark.parametrize("what", ENGINES)
def test_engines(flow, c, what):
    engine, text = ENGINES[what]
    with pytest.raises(EngineError, match=re.escape(text)):
        flow.start(engine)
    flow.output("still open", c)


MIDNIGHT = dt.datetime(2024, 2, 29)


def put(*rows):
    return lambda run: run.insert("c", list(rows))


def put_table(**columns):
    table = pa.table({"k": ["a"], "Size": [1], "day": [dt.date(2024, 2, 29)], "f": [0.5]})
    return lambda run: run.insert("c", pa.table({**{n: table[n] for n in table.column_names}, **columns}))


RUNNING = {
    "text for a number": (
        put(("a", "1", None, None)), RowError, "column Size: int64: '1' (str) is not a valid int64; int(value) makes one",
    ),
    "a number for text": (put((1, 1, None, None)), RowError, "1 (int) is not a valid string; str(value) makes one"),
    "text for a date": (put(("a", 1, "2024-02-29", None)), RowError, "date; date.fromisoformat(value) makes one"),
    "midnight for a date": (
        put(("a", 1, MIDNIGHT, None)), RowError, "is not a valid date; a date has no time of day: value.date() makes one",
    ),
    "pandas' midnight for a date": (
        put(("a", 1, pd.Timestamp(MIDNIGHT), None)), RowError, "a date has no time of day: value.date() makes one",
    ),
    "a column of midnights for a date": (
        put_table(day=[MIDNIGHT]), RowError, "expected date32[day]; a date has no time of day: cast it first, as .dt.date",
    ),
    "a key of another case": (
        put({"k": "a", "size": 1, "day": None, "f": None}), RowError,
        "'Size' is missing: did you mean 'size'? Upper and lower case are different here",
    ),
    "a run in pickle": (pickle.dumps, StateError, "cannot be pickled or copied: run.save(path) writes its state"),
    "a copied run": (copy.deepcopy, StateError, "of this process alone and cannot be pickled or copied"),
    "on_step": (
        lambda run: run.on_step(3), TidemillError,
        "on_step(3): expected a function, which is called with a StepInfo after each step",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", RUNNING)
def test_running(engine, flow, c, what):
    ask, kind, text = RUNNING[what]
    with start(flow, engine) as run:
        with pytest.raises(kind, match=re.escape(text)):
            ask(run)
        run.advance()
        assert len(run.snapshot("c")) == 0


def test_changes_before_anything_is_complete(engine, flow, c):
    with start(flow, engine) as run:
        run.insert("c", [("a", 1, None, None)])
        for shown in (repr(run.changes("c")), run.changes("c").to_html()):
            assert "(no time is complete yet: advance the inputs first, as in run.advance())" in shown
        run.advance()
        assert "no time is complete" not in repr(run.changes("c"))
        assert "no time is complete" not in repr(run.changes("c"))


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_a_negative_count_of_top_k_names_the_row_as_it_is(engine, flow, c, keys):
    flow.output("top", c.group_by(*keys).top_k(2, order_by=[tm.desc("Size"), "f"]))
    with start(flow, engine) as run:
        run.delete("c", [("a", 7, None, 0.5)])
        with pytest.raises(NegativeCountError, match=re.escape("row ('a', 7, None, 0.5) has the count -1")):
            run.advance()


def test_messages_of_files_stay_as_they_are(engine, flow, c, tmp_path: Path):
    (tmp_path / "c.csv").write_text("k,size,day,f\na,1,,\n")
    with (
        start(flow, engine) as run,
        pytest.raises(RowError, match=r"'Size' is missing: did you mean 'size'\? Upper and lower case"),
    ):
        run.insert("c", tm.read_csv(tmp_path / "c.csv"))
