"""`//` is Python's, `%` is PySpark's; tm.div and tm.pmod go with them."""

from __future__ import annotations

import decimal
import math
import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples, start
from support.spark_differences import PAGE

import tidemill as tm
from tidemill.errors import ExpressionError

LIMITS = st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63) + 1])
WHOLE = st.integers(-9, 9) | LIMITS


def table() -> list[tuple[int, ...]]:
    """The table of docs/spark-differences.md."""
    lines = re.findall(r"^\| (-?\d+) \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    return [tuple(map(int, [first, *rest.split("|")])) for first, rest in lines]


def quotients(flow: tm.Dataflow, kinds: dict[str, str]) -> None:
    a, b = tm.col("a"), tm.col("b")
    c = flow.input("c", kinds)
    flow.output("out", c.select("a", "b", floor=a // b, div=tm.div("a", "b"), rest=a % b, pmod=tm.pmod(a, b)))


def test_the_table_of_the_docs(engine: str) -> None:
    flow = tm.Dataflow()
    quotients(flow, {"a": "int64", "b": "int64"})
    with start(flow, engine) as run:
        run.insert("c", [line[:2] for line in table()])
        run.advance()
        assert sorted(run.snapshot("out")) == sorted(table())
    assert len(table()) == 4
    assert all(a // b == floor and math.fmod(a, b) == rest for a, b, floor, _, rest, _ in table())


@pytest.mark.parametrize("kind", ["int64", "int32", "decimal(10,2)"])
def test_whole_quotients_are_pythons(engine: str, kind: str) -> None:
    values = {"int64": WHOLE, "int32": st.integers(-(2**31), 2**31 - 1) | st.integers(-9, 9)}.get(
        kind, st.integers(-9999, 9999).map(lambda v: decimal.Decimal(v).scaleb(-2))
    )

    @examples(15)
    @given(st.lists(st.tuples(st.none() | values, (st.none() | values).filter(lambda v: v != 0)), max_size=5))
    def check(rows: list[tuple[Any, Any]]) -> None:
        flow = tm.Dataflow()
        c = flow.input("c", {"a": kind, "b": kind})
        flow.output("out", c.select("a", "b", q=tm.col("a") // tm.col("b")))
        expected = [(a, b, None if a is None or b is None else math.floor(_exact(a) / _exact(b))) for a, b in rows]
        with start(flow, engine) as run:
            run.insert("c", rows)
            run.advance()
            assert sorted(map(repr, run.snapshot("out"))) == sorted(map(repr, expected))

    check()


def _exact(value: Any) -> Any:
    return Fraction(value)


def test_there_is_no_quotient_by_zero(engine: str) -> None:
    flow = tm.Dataflow()
    c = flow.input("c", {"a": "int64"})
    flow.output("out", c.select(q=1 // tm.col("a")))
    with start(flow, engine) as run:
        run.insert("c", [(0,)])
        with pytest.raises(ExpressionError, match="division by zero in `FLOOR_DIVIDE"):
            run.advance()
