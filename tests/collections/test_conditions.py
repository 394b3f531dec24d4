"""Where a condition is asked for and something else is given: messages name what was written, and what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tidemill as tm
from tidemill.errors import SchemaError
from tidemill.expressions.expr import Expr
from tidemill.expressions.sql_text import expr

W = tm.Window.partition_by("k").order_by("x")
R = tm.col("r")


def made(how: Callable[[tm.Collection], Any]) -> str:
    """The message of an error that names the line it was made at, without that."""
    rows = tm.Dataflow().input("rows", {"k": "int64", "x": "int64", "y": "int64", "b": "bool", "s": "string"})
    with pytest.raises(SchemaError) as caught:
        how(rows)
    return str(caught.value).partition(" (/")[0]


NO_BOOL = "is of type int64: expected bool: compare it with something, as in"
CASES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda c: c.with_columns(r=tm.rank().over(W)).filter("r"), f"filter: `r` {NO_BOOL} `r = 1`"),
    (lambda c: c.with_columns(r=tm.row_number().over(W)).filter(R % 2), f"filter: `r % 2` {NO_BOOL} `r % 2 = 1`"),
    (lambda c: c.filter("s"), "filter: `s` is of type string: expected bool: compare it with something, as in `s IS NOT NULL`"),
    (lambda c: c.filter(None), "filter: None is no condition: expected an expression or SQL text"),
    (lambda c: c.join(c.select("k", z="y"), on="k", where="z"), f"join: where: `z` {NO_BOOL} `z = 1`"),
    (lambda c: c.join(c.select("k", z="y"), on="k", how="left", where="z"), f"join: where: `z` {NO_BOOL} `z = 1`"),
    (lambda c: c.group_by("k").agg(n="sum(x) filter (where y)"), f"n: SUM(x) FILTER (WHERE y): `y` {NO_BOOL} `y = 1`"),
    (lambda c: c.agg(n=tm.count().filter("y + 1")), f"n: COUNT(*) FILTER (WHERE y + 1): `y + 1` {NO_BOOL} `y + 1 = 1`"),
    (lambda c: c.group_by("k").agg(n=tm.list("x").filter("y")), f"n: LIST(x) FILTER (WHERE y): `y` {NO_BOOL} `y = 1`"),
    (
        lambda c: c.with_columns(n=tm.count_distinct("x").filter("y").over(W)),
        f"n: COUNT(x) FILTER (WHERE y): `y` {NO_BOOL} `y = 1`",
    ),
    (lambda c: c.with_columns(r="rank() filter (where y) over (order by x)"), "rank with FILTER (WHERE y): only aggregates have one; filter the rows before"),
    (
        lambda c: c.with_columns(n="sum(x) over (order by x range between interval 5 minutes preceding and current row)"),
        (
            "RANGE with INTERVAL '5' MINUTE PRECEDING over ORDER BY x of type int64: expected a whole number, as in RANGE "
            "BETWEEN 5 PRECEDING AND CURRENT ROW (a fraction if you cast the column), or ORDER BY a date or timestamp "
            "for an interval"
        ),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("how", "message"), CASES, ids=[m for _, m in CASES])
def test_what_is_no_condition(how: Callable[[Any], Any], message: str) -> None:
    assert made(how) == message


def test_null_is_a_condition() -> None:
    flow = tm.Dataflow()
    rows = flow.constant({"x": "int64"}, [(1,)])
    flow.output(
        "out", rows.agg(n="sum(x) filter (where null)", m="count(*)").concat(rows.filter("null").select(n="x", m="x"))
    )
    assert list(flow.start().snapshot("out")) == [(None, 1)]


@pytest.mark.parametrize(
    "how",
    [
        lambda: (R > 1) and (R < 3),
        lambda: (R > 1) or (R < 3),
        lambda: not (R > 1),
        lambda: 3 if R > 1 else 4,
        lambda: 1 < R < 3,
        lambda: (R > 1) in [R, R],
    ],
)  # fmt: skip
def test_pythons_own_logic(how: Callable[[], Any]) -> None:
    """The first operand is named, and what stands for each of Python's words: all of it is there."""
    with pytest.raises(
        SchemaError, match=r"^`.*r.*` has no truth value .*: write `\(a\) & \(b\)` for Python's `a and b`"
    ) as caught:
        how()
    assert "identical" not in str(caught.value)


def test_what_the_message_on_truth_values_says_to_write() -> None:
    low, high, a = 1, 3, tm.col("r") > 1
    for written in [
        (a) & (a),
        (a) | (a),
        ~(a),
        (low < R) & (high > R),
        R.isin([1, 2]),
        tm.when(a, 1),
        expr("x > 1 AND y < 3"),
    ]:
        assert isinstance(written, Expr)
