"""Window calls as SQL text: the same as those written in Python, and errors that say what is wrong."""

import datetime as dt

import attrs
import pytest

import tidemill as tm
from tidemill.errors import SchemaError
from tidemill.expressions.structure import identical, replaced
from tidemill.expressions.windows.calls import WindowCall

W = tm.Window.partition_by("p", "q").order_by(tm.desc("t", nulls="first"), "u")
T = tm.Window.order_by("t")


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("lag(x, 2, 0) over (partition by p, q order by t desc nulls first, u)", tm.lag(tm.col("x"), tm.lit(2), tm.lit(0)).over(W)),
        ("LEAD(x) OVER (ORDER BY t)", tm.lead(tm.col("x")).over(T)),
        ("row_number() over ()", tm.row_number().over(tm.Window())),
        ("ntile(4) over (order by t)", tm.ntile(tm.lit(4)).over(T)),
        ("nth_value(x, 2) ignore nulls over (order by t)", tm.nth_value(tm.col("x"), tm.lit(2), ignore_nulls=True).over(T)),
        ("last_value(x ignore nulls) over (order by t)", tm.last_value(tm.col("x"), ignore_nulls=True).over(T)),
        ("lag(x, 2, 0 ignore nulls) over (order by t)", tm.lag(tm.col("x"), tm.lit(2), tm.lit(0), ignore_nulls=True).over(T)),
        ("nth_value(x, 2 respect nulls) over (order by t)", tm.nth_value(tm.col("x"), tm.lit(2)).over(T)),
        ("first(x) respect nulls over (order by t)", tm.first_value(tm.col("x")).over(T)),
        ("sum(x) over (order by t rows 4 preceding)", tm.sum(tm.col("x")).over(T.rows_between(-4, 0))),
        ("sum(x) over (order by t groups between unbounded preceding and 1 preceding)", tm.sum(tm.col("x")).over(T.groups_between(tm.UNBOUNDED, -1))),
        ("count(*) over (order by t rows between current row and unbounded following exclude ties)", tm.count().over(T.rows_between(0, tm.UNBOUNDED).exclude("ties"))),
        ("avg(x) over (order by t range between interval 5 day preceding and interval '2' hour following)", tm.avg(tm.col("x")).over(T.range_between(-dt.timedelta(days=5), dt.timedelta(hours=2)))),
        ("sum(x) filter (where x > 1) over (order by t)", tm.sum(tm.col("x")).filter(tm.col("x") > 1).over(T)),
        ("sum(distinct x) over (order by t)", tm.sum(tm.col("x")).over(T, distinct=True)),
        ("count(distinct x) over (order by t)", tm.count(tm.col("x")).over(T, distinct=True)),
        ("x - lag(x) over (order by t)", tm.col("x") - tm.lag(tm.col("x")).over(T)),
    ],
)  # fmt: skip
def test_text_is_the_call(text, call):
    assert identical(tm.expr(text), resolved(call)), tm.expr(text)


def resolved(call):
    """The window's columns as expressions, as the parser gives them."""

    def changed(part):
        if not isinstance(part, WindowCall):
            return None
        window = part.window
        keys = [attrs.evolve(k, expression=tm.col(k.expression), text=None) for k in window.order]
        partition = tuple(tm.col(c) for c in window.partition)
        return attrs.evolve(part, window=attrs.evolve(window, partition=partition, order=tuple(keys)))

    return replaced(call, changed)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lag(x)", "LAG is a window function: OVER .* is missing"),
        ("sum(x) over w", "write the window out, or name it in Python"),
        ("lag(x, 1, 2, 3) over (order by t)", "`lag` does not take 4 arguments"),
        ("row_number(x) over (order by t)", "`row_number` does not take 1 arguments"),
        ("sum(x) ignore nulls over (order by t)", "IGNORE NULLS is for LAG, LEAD"),
        ("rank() ignore nulls over (order by t)", "rank IGNORE NULLS: it looks at no values"),
        ("abs(x) over (order by t)", "expected a window function or an aggregate before OVER"),
        ("sum(x) over (order by t rows between -1 preceding and current row)", "- ?1 PRECEDING: expected a number or an interval, not negative"),
        ("sum(x) over (order by t rows between x preceding and current row)", "x PRECEDING: expected a number or an interval"),
        ("sum(x) over (order by t rows between 1.5 preceding and current row)", "expected a number of rows"),
        ("sum(x) over (order by t rows between unbounded following and current row)", "cannot begin at the partition's end"),
        ("sum(x) over (order by t rows between 1 preceding and unbounded preceding)", "cannot end at the partition's start"),
        ("sum(x) over (range between 1 preceding and current row)", "RANGE .* with no ORDER BY"),
        ("sum(lag(x) over (order by t)) over (order by t)", "a window call inside a window call"),
        ("ntile(0) over (order by t)", "expected a number of at least 1"),
        ("lag(x) filter (where x > 1) over (order by t)", r"lag with FILTER \(WHERE x > 1\): only aggregates have one; filter the rows before"),
        ("rank() filter (where x > 1) over (order by t)", r"rank with FILTER \(WHERE x > 1\): only aggregates have one"),
        ("lead(x ignore nulls) filter (where t = 2) over (order by t)", r"lead with FILTER \(WHERE t = 2\): only"),
        ("abs(x) filter (where x > 1) over (order by t)", "ABS"),
        ("first(x order by t) over (order by t)", r"the order is the window's: write FIRST\(x\) OVER \(... ORDER BY ...\)"),
        ("last_value(x order by t desc ignore nulls) over ()", r"write LAST_VALUE\(x\) OVER"),
        ("sum(x) over (order by t rows 2 following)", r"ROWS 2 FOLLOWING in .*: a frame that begins there does not end at the current row: write ROWS BETWEEN 2 FOLLOWING AND \.\.\."),
        ("sum(x) over (order by t groups 0 following)", "write GROUPS BETWEEN 0 FOLLOWING AND"),
        ("sum(x) over (order by t range 1 following exclude ties)", "write RANGE BETWEEN 1 FOLLOWING AND"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(text, says):
    flow = tm.Dataflow()
    x = flow.input("x", {"t": "int64", "x": "int64"})
    with pytest.raises(SchemaError, match=says):
        x.with_columns(y=text)


def test_text_in_with_columns_and_select(engine):
    flow = tm.Dataflow()
    x = flow.constant({"p": "string", "t": "int64", "x": "int64"}, [("a", 1, 5), ("a", 2, 7), ("b", 1, 1)])
    made = x.with_columns(before="lag(x) over (partition by p order by t)")
    flow.output("y", made.select("p", "t", change="x - before", n="count(*) over (partition by p)"))
    with flow.start(tm.Reference() if engine == "reference" else tm.Embedded()) as run:
        assert list(run.snapshot("y")) == [("a", 1, None, 2), ("a", 2, 2, 2), ("b", 1, None, 1)]
