"""The meaning of scalar expressions: one row in plain Python. The other evaluators are tested against this one.

AND and OR take their operands from left to right, up to the first one that decides (false, true): an error counts only
where none before it did, as it does after NULL. CASE, COALESCE and IN leave alone what they need not likewise. What
each function means is said by its entry in the registry.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tidemill.errors import ExpressionError
from tidemill.expressions.bound import Bound, BoundColumn, BoundLiteral
from tidemill.expressions.functions import FUNCTIONS
from tidemill.expressions.functions.casts import cast_value
from tidemill.expressions.functions.values import FailureError
from tidemill.expressions.recursion_guard import recursion_guard
from tidemill.expressions.sql_text import to_sql


@recursion_guard
def evaluate(bound: Bound, row: Sequence[Any]) -> Any:
    """Return the value of a bound expression for a row; ``ExpressionError`` where it has none.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.schema import Schema
    >>> from tidemill.expressions.sql_text import expr
    >>> ratio = bind(expr("delay / n"), Schema.of({"delay": "int64", "n": "int64"}))
    >>> evaluate(ratio, (3, 2)), evaluate(ratio, (None, 2))
    (1.5, None)
    >>> evaluate(ratio, (3, 0))
    Traceback (most recent call last):
    ...
    tidemill.errors.ExpressionError: division by zero in `delay / n`
    """
    return _evaluate(bound, row)


def _evaluate(bound: Bound, row: Sequence[Any]) -> Any:
    if isinstance(bound, BoundColumn):
        return row[bound.index]
    if isinstance(bound, BoundLiteral):
        return bound.value
    if bound.function != "cast" and FUNCTIONS[bound.function].lazy:
        return FUNCTIONS[bound.function].python(*(functools.partial(_evaluate, a, row) for a in bound.args))
    values = [_evaluate(a, row) for a in bound.args]
    types = tuple(a.dtype for a in bound.args)
    try:
        if bound.function == "cast":
            return None if values[0] is None else cast_value(values[0], types[0], bound.dtype)
        return FUNCTIONS[bound.function].value(values, types, bound.dtype)
    except FailureError as failure:
        raise ExpressionError(str(failure), to_sql(bound)) from None
