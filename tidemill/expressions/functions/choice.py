"""What chooses between values, CASE and COALESCE, least and greatest: entries in the registry, and builders."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidemill.expressions.expr import Call, Expr, When, call, lit, operand
from tidemill.expressions.functions.registry import COMPARABLE, Function, Signature, common_type, same
from tidemill.expressions.functions.values import is_less
from tidemill.expressions.types import BOOL, NULL, DType

_Later = Callable[[], Any]


def _case_types(types: Sequence[DType]) -> Signature | None:
    """Conditions and values in turn, and a value at the end."""
    conditions, values = types[:-1:2], [*types[1:-1:2], types[-1]]
    common = common_type(values)
    if common is None or any(t not in (BOOL, NULL) for t in conditions):
        return None
    return Signature((*(BOOL if i % 2 == 0 else common for i in range(len(types) - 1)), common), common)


def _case(*args: _Later) -> Any:
    *branches, default = args
    chosen = (v for c, v in zip(branches[::2], branches[1::2], strict=True) if c() is True)
    return next(chosen, default)()


def _least(*values: Any) -> Any:
    known = [v for v in values if v is not None]
    return functools.reduce(lambda a, b: b if is_less(b, a) else a, known) if known else None


def _greatest(*values: Any) -> Any:
    known = [v for v in values if v is not None]
    return functools.reduce(lambda a, b: b if is_less(a, b) else a, known) if known else None


CHOICE: Final = (
    Function("case", _case_types, "conditions (bool) and " + COMPARABLE, nullable=lambda of: any(of[1:-1:2]) or of[-1],
             python=_case, lazy=True),
    Function("coalesce", same(least=1), COMPARABLE, nullable=all, aliases=("ifnull", "nvl"),
             python=lambda *args: next((v for a in args if (v := a()) is not None), None), lazy=True),
    Function("least", same(least=2), "two or more " + COMPARABLE, nullable=all, python=_least, sees_null=True),
    Function("greatest", same(least=2), "two or more " + COMPARABLE, nullable=all, python=_greatest, sees_null=True),
)  # fmt: skip


# Builders.


def when(condition: Any, value: Any) -> When:
    """Return a CASE: ``when(c, v).when(c2, v2).otherwise(w)``; branches are evaluated only for the rows they are for.

    A string in a condition's place is a column or SQL text; in a value's, as in PySpark, it is a literal.

    >>> import tidemill as tm
    >>> numbers = tm.Dataflow().constant({"n": "int64"}, [(1,), (-1,)])
    >>> print(numbers.select("n", sign=tm.when("n > 0", "+").otherwise("-")).node.columns[1].args[1].value)
    +
    """
    return When(()).when(condition, value)


def coalesce(*values: Any) -> Expr:
    """Return the first value that is not NULL; later ones are evaluated only where all before are NULL.

    As in all functions, a string is a column or SQL text, and a literal one is ``tm.lit("...")``.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> c = flow.constant({"name": "string", "country": "string"}, [("Ada", "UK"), ("Bo", None)])
    >>> flow.output("out", c.select("name", country=tm.coalesce("country", tm.lit("unknown"))))
    >>> flow.start().snapshot("out")
    name  country
    ----  -------
    Ada   UK
    Bo    unknown
    """
    return call("coalesce", *map(operand, values))


def nullif(value: Any, other: Any) -> Expr:
    """Return the value, or NULL where it equals the other."""
    return Call("case", (operand(value) == operand(other), lit(None), operand(value)))


def least(*values: Any) -> Expr:
    """Return the least value that is not NULL."""
    return call("least", *map(operand, values))


def greatest(*values: Any) -> Expr:
    """Return the greatest value that is not NULL; NaN is greater than any number."""
    return call("greatest", *map(operand, values))
