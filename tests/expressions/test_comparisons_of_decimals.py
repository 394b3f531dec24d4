"""Decimals of any two types compare exactly, also where no type holds the values of both."""

from __future__ import annotations

import decimal
import operator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

import tidemill as tm
from tidemill.expressions.binding import bind
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import expr
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.reference.expressions import evaluate

TYPES = [
    "decimal(38,2)",
    "decimal(38,6)",
    "decimal(38,38)",
    "decimal(38,0)",
    "decimal(20,19)",
    "decimal(30,2)",
    "int64",
]
SIGNS = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def values(dtype: str) -> st.SearchStrategy[decimal.Decimal | int | None]:
    if dtype == "int64":
        return st.none() | st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-2, 2)
    precision, scale = map(int, dtype[8:-1].split(","))
    limit = 10**precision - 1
    near = [i * 10**scale + d for i in (-1, 0, 1) for d in (-1, 0, 1) if abs(i * 10**scale + d) <= limit]
    units = st.integers(-limit, limit) | st.sampled_from([*near, limit, -limit])
    return st.none() | units.map(lambda n: decimal.Decimal(n).scaleb(-scale, decimal.Context(prec=80)))


@pytest.mark.parametrize("sign", [*SIGNS, "<=>", "in"])
def test_of_any_two_types(sign: str) -> None:
    @given(st.data())
    @examples(60)
    def compared(data: st.DataObject) -> None:
        left, right = (data.draw(st.sampled_from(TYPES)) for _ in "ab")
        schema = Schema.of({"a": left, "b": right})
        tree = bind(expr("a in (b, 0)" if sign == "in" else f"a {sign} b"), schema)
        rows = [(data.draw(values(left)), data.draw(values(right))) for _ in range(3)]
        expected = [meant(sign, *row) for row in rows]
        assert [evaluate(tree, row) for row in rows] == expected
        columns = [pa.array(c, f.dtype.arrow) for c, f in zip(zip(*rows, strict=True), schema, strict=True)]
        assert compile_scalar(tree)(columns, 3).to_pylist() == expected
        assert all(tree.nullable or v is not None for v in expected)

    compared()


def meant(sign: str, a: decimal.Decimal | int | None, b: decimal.Decimal | int | None) -> bool | None:
    if sign == "<=>":
        return a == b
    if a is None:
        return None
    if sign == "in":
        return True if a == 0 else None if b is None else a == b
    return None if b is None else SIGNS[sign](a, b)


def test_in_sql_and_python() -> None:
    flow = tm.Dataflow()
    c = flow.input("t", {"a": "decimal(38,2)", "b": "decimal(38,6)"})
    flow.output("python", c.filter(tm.col("a") > tm.col("b")))
    flow.output("sql", flow.sql("select * from t where a > b"))
    flow.output("literal", flow.sql("select * from t where a > 0.0000001 and b between a and 1e30"))
    run = flow.start()
    great, small = decimal.Decimal("9" * 36 + ".99"), decimal.Decimal("0.000001")
    run.insert("t", [(great, small), (great.copy_negate(), small), (decimal.Decimal("0.00"), -small), (None, small)])
    run.advance()
    expected = [(decimal.Decimal("0.00"), -small), (great, small)]
    assert sorted(run.snapshot("python")) == sorted(run.snapshot("sql")) == expected
    assert list(run.snapshot("literal")) == []
