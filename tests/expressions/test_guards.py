"""AND and OR guard: an error counts only where no operand before it has decided, however rows are evaluated."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from support.guards import ROWS, SCHEMA, TREES, Failed, Tree, meaning, text_of
from support.running import examples

from tidemill.errors import ExpressionError
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import Bound
from tidemill.expressions.functions.values import FailureError
from tidemill.expressions.sql_text import expr
from tidemill.renderer.embedded.expressions import evaluator
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.embedded.expressions.few_rows import compile_row_scalar
from tidemill.renderer.reference.expressions import evaluate

_ROWS = [(1, 4, 0, True, "x"), (2, 4, 2, None, None), (None, None, None, False, "1")]


@pytest.mark.slow
@examples(400, least=60)
@given(tree=TREES, rows=ROWS)
@example(tree=("and", "b <> 0", "a / b > 1"), rows=_ROWS)
@example(tree=("or", "b = 0", "a / b > 1"), rows=_ROWS)
@example(tree=("and", "p", "a / b > 1"), rows=[(1, 1, 0, None, None)])  # NULL does not decide
@example(tree=("and", "a / b > 1", "b <> 0"), rows=_ROWS)
def test_operands_count_from_left_to_right_until_one_decides(tree: Tree, rows: list[tuple[Any, ...]]) -> None:
    """Errors behind an operand that decides: for the definition, row by row, few rows and whole columns."""
    bound = bind(expr(text_of(tree)), SCHEMA)
    wanted = [meaning(tree, row) for row in rows]
    assert [_one(bound, row) for row in rows] == wanted
    quick = compile_row_scalar(bound)
    if quick is not None:
        assert [_quick(quick, row) for row in rows] == [None if isinstance(w, Failed) else [w] for w in wanted]
    for copies in (1, 30):
        _compare_columns(bound, rows * copies, wanted * copies)


def _one(bound: Bound, row: tuple[Any, ...]) -> Any:
    try:
        return evaluate(bound, row)
    except ExpressionError as error:
        return Failed(str(error))


def _quick(scalar: Any, row: tuple[Any, ...]) -> Any:
    try:
        return [scalar(row)]
    except FailureError:
        return None


def _compare_columns(bound: Bound, rows: list[tuple[Any, ...]], wanted: list[Any]) -> None:
    columns = [pa.array(c, f.dtype.arrow) for c, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    first = next((i for i, w in enumerate(wanted) if isinstance(w, Failed)), None)
    compiled = compile_scalar(bound)
    if first is None:
        assert compiled(columns, len(rows)).to_pylist() == wanted
        return
    with pytest.raises(ExpressionError) as caught:
        compiled(columns, len(rows))
    assert (caught.value.row_index, Failed(str(caught.value))) == (first, wanted[first])


VALUES = [
    ("a not between 5 and 4 div b", True),
    ("a in (4, 1 div b)", True),
    ("a in (1, 4, 1 div b)", True),
    ("a not in (4, 1 div b)", False),
    ("false and 1 / 0 > 1", False),
    ("true or 1 / 0 > 1", True),
    ("not (b <> 0 and a / b > 1)", True),
    ("case when b <> 0 and a / b > 1 then 1 else 2 end = 2", True),
    ("coalesce(null, b = 0 or a div b > 1)", True),
    ("(b = 0 or a / b > 1) = (b <> 0 and a / b > 1)", False),
]


@pytest.mark.parametrize(("text", "value"), VALUES, ids=[t for t, _ in VALUES])
def test_whatever_is_made_of_them_guards(text: str, value: object) -> None:
    """BETWEEN and IN, which are AND and OR of comparisons, too; constants; logic within other functions."""
    bound, row = bind(expr(text), SCHEMA), (1, 4, 0, True, "x")
    assert evaluate(bound, row) is value
    assert (
        compile_scalar(bound)([pa.array([v] * 2, f.dtype.arrow) for v, f in zip(row, SCHEMA, strict=True)], 2)[
            1
        ].as_py()
        is value
    )


@pytest.mark.parametrize(
    "text", ["a in (1 div b, 4)", "a in (1 div b)", "p and a / b > 1", "a / b > 1 and b <> 0", "b in (a, 1 / 0)"]
)
def test_what_nothing_before_has_decided_is_an_error(text: str) -> None:
    bound, row = bind(expr(text), SCHEMA), (1, 4, 0, None, "x")
    for value in (
        lambda: evaluate(bound, row),
        lambda: compile_scalar(bound)([pa.array([v], f.dtype.arrow) for v, f in zip(row, SCHEMA, strict=True)], 1),
    ):
        with pytest.raises(ExpressionError, match="division by zero"):
            value()


def test_where_nothing_fails_columns_are_evaluated_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards cost nothing on rows without errors: each operand's kernels run once, on all rows."""
    bound = bind(expr("b <> 0 and a / b > 1 and (p or a % b < 2)"), SCHEMA)
    columns = [pa.array(c) for c in ([1] * 100, [4] * 100, [2] * 100, [False] * 100, ["x"] * 100)]
    monkeypatch.setattr(evaluator, "_evaluate", None)
    assert compile_scalar(bound)(columns, 100).to_pylist() == [True] * 100
