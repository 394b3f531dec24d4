"""docs/spark-differences.md says what expressions give here; what Spark gives is tested with Spark."""

from __future__ import annotations

import pytest
from support.spark_differences import TYPES, VALUES, Difference

from tidemill.errors import ExpressionError, SchemaError
from tidemill.expressions.binding import bind
from tidemill.expressions.expr import Cast
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import expr
from tidemill.expressions.types import STRING
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.reference.expressions import evaluate

NOTHING = Schema(())


@pytest.mark.parametrize("case", VALUES, ids=[c.expression for c in VALUES])
def test_values(case: Difference) -> None:
    if case.here == "refused":
        with pytest.raises((ExpressionError, SchemaError)):
            evaluate(bind(expr(case.expression), NOTHING), ())
        return
    tree = bind(Cast(expr(case.expression), STRING), NOTHING)
    assert evaluate(tree, ()) == case.here
    assert compile_scalar(tree)([], 1).to_pylist() == [case.here]


@pytest.mark.parametrize("case", TYPES, ids=[c.expression for c in TYPES])
def test_types(case: Difference) -> None:
    assert str(bind(expr(case.expression), NOTHING).dtype) == case.here


def test_there_are_tables() -> None:
    assert len(VALUES) > 10
    assert len(TYPES) == 3
