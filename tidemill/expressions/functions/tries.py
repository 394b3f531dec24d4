"""Functions that are NULL where others are an error: their entries in the registry, and their builders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tidemill.errors import SchemaError
from tidemill.expressions.expr import Expr, call, operand
from tidemill.expressions.functions.casts import cast_value
from tidemill.expressions.functions.date_formats import DATE_FORMATS
from tidemill.expressions.functions.lists import LISTS
from tidemill.expressions.functions.number_formats import NUMBER_FORMATS
from tidemill.expressions.functions.operators import OPERATORS
from tidemill.expressions.functions.registry import Function, Signature, TypeRule, always, can_cast, two_numbers
from tidemill.expressions.functions.values import FailureError
from tidemill.expressions.intervals import INTERVALS
from tidemill.expressions.types import DATE, NULL, STRING, TIMESTAMP, DType, dtype


def _tried(function: Function) -> Callable[..., Any]:
    def run(types: tuple[DType, ...], *values: Any) -> Any:
        signature = function.rule(types)
        assert signature is not None, "it was bound"
        signature = signature if function.refine is None else function.refine(signature, values)
        try:
            return function.value(values, types, signature.result)
        except FailureError:
            return None

    return run


def _of_numbers(rule: TypeRule) -> TypeRule:
    return lambda types: rule(types) if two_numbers(types) else None


def _try(function: Function, name: str = "", sql: str = "") -> Function:
    """Return the entry of a function that is NULL where this one is an error."""
    name = f"try_{name or function.name}"
    is_sign = not function.sql.isidentifier()
    rule, expects = (_of_numbers(function.rule), "two numbers") if is_sign else (function.rule, function.expects)
    return Function(name, rule, expects, sql or name.upper(), nullable=always, python=_tried(function), by_types=True,
                    literals=function.literals, check=function.check, refine=function.refine)  # fmt: skip


def _cast_types(types: Sequence[DType]) -> Signature | None:
    return Signature((types[0], STRING), types[0]) if len(types) == 2 and types[1] == STRING else None  # noqa: PLR2004


def _cast_to(signature: Signature, literals: Sequence[Any]) -> Signature:
    given, to = signature.params[0], dtype(literals[1])
    if not can_cast(given, to):
        msg = f"TRY_CAST: there is no cast from {given} to {to}"
        raise SchemaError(msg)
    return Signature((to if given == NULL or given in INTERVALS else given, STRING), to)


def _cast(types: tuple[DType, ...], value: Any, to: str) -> Any:
    try:
        return cast_value(value, types[0], dtype(to))
    except FailureError:
        return None


_BY_NAME: Final = {f.name: f for f in (*OPERATORS, *LISTS, *DATE_FORMATS, *NUMBER_FORMATS)}

TRIES: Final = (
    *(_try(_BY_NAME[name]) for name in ("add", "subtract", "multiply", "divide", "element_at")),
    _try(_BY_NAME["modulo"], "mod"),
    _try(_BY_NAME["date_of_text"], sql="TRY_TO_DATE"),
    _try(_BY_NAME["timestamp_of_text"], sql="TRY_TO_TIMESTAMP"),
    _try(_BY_NAME["to_number"]),
    Function("try_cast", _cast_types, "a value and the name of a type", sql="TRY_CAST_TO", nullable=always,
             literals=(1,), refine=_cast_to, python=_cast, by_types=True),
)  # fmt: skip


def try_add(a: Any, b: Any) -> Expr:
    """Return the sum of two numbers; NULL where it does not fit the type.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> c = flow.constant({"n": "int64", "s": "string"}, [(2, "7"), (0, "x")])
    >>> flow.output("out", c.select("n", half=tm.try_divide(1, "n"), s=tm.col("s").try_cast("int64")))
    >>> flow.start().snapshot("out")
    n  half  s
    -  ----  ----
    0  NULL  NULL
    2  0.5   7
    """
    return call("try_add", operand(a), operand(b))


def try_subtract(a: Any, b: Any) -> Expr:
    """Return the difference of two numbers; NULL where it does not fit the type."""
    return call("try_subtract", operand(a), operand(b))


def try_multiply(a: Any, b: Any) -> Expr:
    """Return the product of two numbers; NULL where it does not fit the type."""
    return call("try_multiply", operand(a), operand(b))


def try_divide(a: Any, b: Any) -> Expr:
    """Return the quotient of two numbers as ``/`` does; NULL where the divisor is 0, or it does not fit the type."""
    return call("try_divide", operand(a), operand(b))


def try_mod(a: Any, b: Any) -> Expr:
    """Return the remainder of a division as ``%`` does; NULL where the divisor is 0."""
    return call("try_mod", operand(a), operand(b))


def try_element_at(values: Any, place: Any) -> Expr:
    """Return the value at a place of a list as `element_at` does; NULL where there is none."""
    return call("try_element_at", operand(values), operand(place))


def try_to_date(value: Any, pattern: str | None = None) -> Expr:
    """Return text as a date as `to_date` does; NULL where it is none."""
    value = operand(value)
    return value.try_cast(DATE) if pattern is None else call("try_date_of_text", value, pattern)


def try_to_timestamp(value: Any, pattern: str | None = None) -> Expr:
    """Return text as a timestamp as `to_timestamp` does; NULL where it is none.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> c = flow.constant({"s": "string"}, [("3/4/24",), ("soon",)])
    >>> flow.output("out", c.select("s", day=tm.try_to_date("s", "M/d/yy")))
    >>> flow.start().snapshot("out")
    s       day
    ------  ----------
    3/4/24  2024-03-04
    soon    NULL
    """
    value = operand(value)
    return value.try_cast(TIMESTAMP) if pattern is None else call("try_timestamp_of_text", value, pattern)


def try_to_number(value: Any, form: str) -> Expr:
    """Return text as a decimal as `to_number` does; NULL where it is none in that format."""
    return call("try_to_number", operand(value), form)
