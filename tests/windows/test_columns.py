"""Window calls as users write them: where they may stand, and what the graph is then."""

import re

import pytest

import tidemill as tm
from tidemill.dataflow.composites import Windowed
from tidemill.errors import SchemaError

N = None
W = tm.Window.partition_by("k").order_by("t")


def table(schema, rows, build):
    """Return what is made of rows, sorted."""
    flow = tm.Dataflow()
    flow.output("y", build(flow.constant(schema, rows)))
    return [tuple(r) for r in flow.start().snapshot("y")]


def flights():
    return tm.Dataflow("flights").input("x", {"k": "string", "t": "int64", "x": "int64"})


# C1, C5, C6 and C21 of known values, by users' means.


def test_c1_frame_modes():
    ones = [(1,), (1,), (1,), *((x,) for x in range(5, 15, 2))]
    found = table(
        {"x": "int64"},
        ones,
        lambda c: c.with_columns(
            rows=tm.sum("x").over(tm.Window.order_by("x").rows_between(-1, 1)),
            range=tm.sum("x").over(tm.Window.order_by("x").range_between(-1, 1)),
            groups=tm.sum("x").over(tm.Window.order_by("x").groups_between(-1, 1)),
        ),
    )
    assert found == [
        (1, 2, 3, 8), (1, 3, 3, 8), (1, 7, 3, 8), (5, 13, 5, 15), (7, 21, 7, 21), (9, 27, 9, 27), (11, 33, 11, 33),
        (13, 24, 13, 24),
    ]  # fmt: skip


def test_c5_reversed_frames_are_empty():
    by_b = tm.Window.order_by("b")
    found = table(
        {"b": "int64", "c": "int64"},
        [(1, 1), (2, 3), (4, 9)],
        lambda c: c.select(
            "b", n=tm.count().over(by_b.rows_between(10, 1)), m=tm.avg("c").over(by_b.rows_between(1, 1))
        ),
    )
    assert found == [(1, 0, 3.0), (2, 0, 9.0), (4, 0, N)]


def test_rankings():
    by_x = tm.Window.order_by("x")
    found = table(
        {"x": "int64"},
        [(1,), (2,), (2,), (3,)],
        lambda c: c.with_columns(
            a=tm.row_number().over(by_x), b=tm.rank().over(by_x), c=tm.dense_rank().over(by_x),
            d=tm.percent_rank().over(by_x), e=tm.cume_dist().over(by_x), f=tm.ntile(2).over(by_x),
        ),
    )  # fmt: skip
    assert found == [
        (1, 1, 1, 1, 0.0, 0.25, 1), (2, 2, 2, 2, 1 / 3, 0.75, 1), (2, 3, 2, 2, 1 / 3, 0.75, 2), (3, 4, 4, 3, 1.0, 1.0, 2),
    ]  # fmt: skip


def test_values_of_other_rows():
    by_t = tm.Window.order_by("t")
    found = table(
        {"t": "int64", "x": "int64"},
        [(1, 5), (2, N), (3, 7)],
        lambda c: c.select(
            "t", tm.lag("x").over(by_t).alias("a"), tm.lead("x", 1, -1).over(by_t).alias("b"),
            tm.lag("x", ignore_nulls=True).over(by_t).alias("c"), tm.first_value("x").over(by_t).alias("d"),
            tm.last_value("x", ignore_nulls=True).over(by_t).alias("e"), tm.nth_value("x", 3).over(by_t).alias("f"),
        ),
    )  # fmt: skip
    assert found == [(1, N, N, N, 5, 5, N), (2, 5, 7, 5, 5, 5, N), (3, N, -1, 5, 5, 7, 7)]


def test_c21_distinct_and_filters():
    by_t = tm.Window.order_by("t")
    found = table(
        {"t": "int64", "x": "int64"},
        [(1, 5), (2, 5), (3, 7)],
        lambda c: c.select(
            "t",
            d=tm.sum("x").over(by_t, distinct=True),
            n=tm.count_distinct("x").over(by_t),
            f=tm.count().filter("x > 5").over(by_t),
            l=tm.list("x").over(by_t.rows_between(-1, 0)),
        ),
    )
    assert found == [(1, 5, 1, 0, (5,)), (2, 5, 1, 0, (5, 5)), (3, 12, 2, 1, (5, 7))]


# Where calls may stand.


def test_a_call_may_replace_a_column_that_others_read():
    found = table(
        {"t": "int64", "x": "int64"},
        [(1, 5), (2, 6)],
        lambda c: c.with_columns(x=tm.lag("x").over(tm.Window.order_by("t")), y=tm.col("x") * 10),
    )
    assert found == [(1, N, 50), (2, 5, 60)]


def test_a_call_without_a_name_has_its_text():
    made = flights().select(
        "k",
        tm.lag("x").over(W),
        tm.sum("x").over(W.rows_between(-1, 0)) / 2,
        tm.avg("x").over(tm.Window.partition_by(tm.col("x") % 2), distinct=True),
    )
    frame = "PARTITION BY k ORDER BY t ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"
    assert made.schema.names == (
        "k",
        "LAG(x, 1) OVER (PARTITION BY k ORDER BY t)",
        f"SUM(x) OVER ({frame}) / 2",
        "AVG(DISTINCT x) OVER (PARTITION BY x % 2)",
    )


def test_calls_of_one_partitioning_and_order_are_one_operator():
    c = flights()
    made = c.with_columns(
        a=tm.col("x") - tm.lag("x").over(W),
        b=tm.lag("x").over(W),
        c=tm.avg("x").over(W.rows_between(-4, 0)),
        d=tm.rank().over(W.order_by(tm.desc("t"))),
    )
    windowed = [n for n in made.builder.graph.nodes if isinstance(n, Windowed)]
    assert [n.describe() for n in windowed] == [
        "lag(x, 1) AS b, avg(x) ROWS BETWEEN 4 PRECEDING AND CURRENT ROW AS c by t of each k, in order or recompute (auto)",
        "rank() AS d by t DESC of each k, in order or recompute (auto)",
    ]
    assert [f"Windowed [{n.describe()}]" in c.builder.explain() for n in windowed] == [True, True]


@pytest.mark.parametrize(
    "build",
    [
        lambda c: c.filter(tm.rank().over(W) == 1),
        lambda c: c.group_by(r=tm.rank().over(W)),
        lambda c: c.group_by("k").agg(n=tm.sum("x").over(W)),
        lambda c: c.group_by("k").agg(n=tm.sum("x") / tm.count().over(W)),
        lambda c: c.group_by("k").agg(n=tm.sum(tm.lag("x").over(W))),
        lambda c: c.group_by("k").agg(n=tm.count().filter(tm.rank().over(W) == 1)),
        lambda c: c.group_by("k").top_k(1, order_by=tm.rank().over(W)),
        lambda c: c.join(c, on="k", where=tm.rank().over(W) == 1),
    ],
)
def test_elsewhere_it_is_refused(build):
    says = "is not supported here: a window call looks at other rows; add it as a column in select(...)"
    with pytest.raises(SchemaError, match=re.escape(says)):
        build(flights())


def test_a_function_without_a_window_is_refused():
    with pytest.raises(SchemaError, match=re.escape("`LAG(x, 1)` is called over a window only")):
        flights().select(a=tm.col("x") - tm.lag("x"))


def test_a_filter_of_what_it_is_partitioned_by_goes_below():
    c = flights()
    made = c.with_columns(n=tm.row_number().over(W)).filter("k = 'a' and n = 1")
    c.builder.output("y", made)
    plan = c.builder.explain(passes=True).partition("after ")[2]
    below, above = (plan.index(text) for text in ("Filter [k = 'a'] <- #0", "Filter [number = 1]"))
    assert below < plan.index("Reduce 'windowed'") < above


def test_ties_are_broken_by_columns_that_nobody_reads(engine):
    """Which of two flights at the same time is the first depends on the whole row, whatever is made of it later."""
    rows = [("a", 1, x) for x in range(6)]

    def first(narrow):
        flow = tm.Dataflow()
        c = flow.input("x", {"k": "string", "t": "int64", "x": "int64"})
        made = c.with_columns(n=tm.row_number().over(W), before=tm.lag("t").over(W))
        flow.output("y", made.select("k", "n", "before") if narrow else made)
        with flow.start(tm.Reference() if engine == "reference" else tm.Embedded()) as run:
            run.insert("x", rows)
            run.advance()
            return run.snapshot("y").counts()

    assert first(narrow=True) == {("a", n, 1 if n > 1 else None): 1 for n in range(1, 7)}
    assert {row[2]: row[3] for row in first(narrow=False)} == {x: n for (_, _, x, n, _) in first(narrow=False)}
