"""A function is one entry in the registry: parsed, bound, printed, and evaluated by engines without a kernel of it."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from support.running import start

import tidemill as tm
from tidemill.errors import ExpressionError
from tidemill.expressions.binding import bind
from tidemill.expressions.expr import call, col
from tidemill.expressions.functions import BY_NAME, FUNCTIONS
from tidemill.expressions.functions.registry import Function, Signature, fixed, never, same
from tidemill.expressions.functions.values import FailureError
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import expr, to_sql
from tidemill.expressions.types import INT32, INT64, STRING, DType, dtype
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.reference.expressions import evaluate


def shout(text: str, times: int) -> str:
    if times < 0:
        reason = "nobody shouts so little"
        raise FailureError(reason)
    return text.upper() + "!" * times


def total(types: Sequence[DType]) -> Signature | None:
    fits = len(types) == 1 and types[0].element is not None and types[0].element.is_integer
    return Signature((types[0],), INT64) if fits else None


TOYS = [
    Function("shout", fixed(STRING, INT32, result=STRING), "a string and a number", "SHOUT", can_fail=True, python=shout),
    Function("known", same(least=1, result=INT64), "values", "KNOWN", nullable=never, sees_null=True,
             python=lambda *values: sum(v is not None for v in values)),
    Function("first_of", same(least=2), "values", "FIRST_OF", lazy=True, python=lambda a, b: a() or b()),
    Function("total", total, "a list of whole numbers", "TOTAL", can_fail=True,
             python=lambda values: sum(v for v in values if v is not None)),
    Function("width", same(least=1, most=1, result=INT64), "a value", "WIDTH", by_types=True,
             python=lambda types, _value: 32 if types[0] == INT32 else 64),
    Function("thirds", fixed(INT64, result=dtype("decimal(5,2)")), "a number", "THIRDS", can_fail=True,
             python=lambda n: decimal.Decimal(n) / 3),
]  # fmt: skip
SCHEMA = Schema.of({"s": "string", "t": "string", "n": "int32", "l": "list<int64>", "i": "int64"})
ROWS = [
    ("a", "b", 1, (1, None), 1), ("b", None, 0, (), 7), (None, "c", 2, None, None), ("a", "b", None, (2, 3), -1),
    ("a", "", 1, (0,), 998),
]  # fmt: skip


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    for toy in TOYS:
        monkeypatch.setitem(FUNCTIONS, toy.name, toy)
        monkeypatch.setitem(BY_NAME, toy.sql.lower(), toy)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SHOUT(s, 2)", ["A!!", "B!!", None, "A!!", "A!!"]),
        ("SHOUT(s, n)", ["A!", "B", None, None, "A!"]),
        ("SHOUT('x', n)", ["X!", "X", "X!!", None, "X!"]),
        ("SHOUT('x', 1)", ["X!"] * 5),
        ("KNOWN(s, t)", [2, 1, 1, 2, 2]),
        ("KNOWN(s)", [1, 1, 0, 1, 1]),
        ("FIRST_OF(t, s)", ["b", "b", "c", "b", "a"]),
        ("TOTAL(l)", [1, 0, None, 5, 0]),
        ("WIDTH(n)", [32, 32, 32, None, 32]),
        ("THIRDS(i)", [decimal.Decimal(t) if t else None for t in ("0.33", "2.33", None, "-0.33", "332.67")]),
    ],
)
def test_values(text: str, expected: list[Any]) -> None:
    tree = bind(expr(text.lower()), SCHEMA)
    assert to_sql(tree) == text
    assert [evaluate(tree, row) for row in ROWS] == expected
    arrays = [pa.array(column, f.dtype.arrow) for column, f in zip(zip(*ROWS, strict=True), SCHEMA, strict=True)]
    found = compile_scalar(tree)(arrays, len(ROWS))
    assert (found.to_pylist(), found.type) == (expected, tree.dtype.arrow)


@pytest.mark.parametrize(
    ("text", "rows", "reason"),
    [
        ("shout(s, n)", [("a", 1), ("b", -1)], "nobody shouts so little in `SHOUT(s, n)`"),
        ("thirds(n)", [("a", 1), ("b", 3000)], "overflow in `THIRDS(n)`"),
    ],
)
def test_a_row_that_has_no_value(text: str, rows: list[tuple[str, int]], reason: str) -> None:
    tree = bind(expr(text), Schema.of({"s": "string", "n": "int32"}))
    with pytest.raises(ExpressionError) as by_reference:
        evaluate(tree, rows[1])
    with pytest.raises(ExpressionError) as by_kernels:
        compile_scalar(tree)([pa.array(["a", "b"]), pa.array([r[1] for r in rows], pa.int32())], 2)
    assert str(by_reference.value) == str(by_kernels.value) == reason
    assert by_kernels.value.row_index == 1


def test_in_a_dataflow(engine: str) -> None:
    flow = tm.Dataflow("toys")
    x = flow.input("x", {"s": "string", "n": "int32"})
    flow.output("loud", x.filter("known(s) = 1").select(said=call("shout", col("s"), col("n"))))
    with start(flow, engine) as run:
        run.insert("x", [("a", 1), ("b", 2), (None, 1)])
        run.advance()
        run.delete("x", [("a", 1)])
        run.advance()
        assert list(run.snapshot("loud")) == [("B!!",)]
