"""Functions of lists: their entries in the registry, and their builders."""

from __future__ import annotations

import builtins
from collections.abc import Hashable, Sequence
from typing import Any, Final

from tidemill.expressions.expr import Expr, call, operand
from tidemill.expressions.functions.registry import Function, Signature, TypeRule, always, common_type, fixed, never
from tidemill.expressions.functions.regular_expressions import pattern_complaint
from tidemill.expressions.functions.searches import pieces
from tidemill.expressions.functions.values import FailureError, is_equal, value_order
from tidemill.expressions.types import BOOL, INT32, INT64, NULL, STRING, DType, list_type


def of_list(*more: DType, result: DType | None = None) -> TypeRule:
    """Return the rule for a list and further arguments; the result is one of the list's values, unless it is given."""

    def rule(types: Sequence[DType]) -> Signature | None:
        if not types or types[0].element is None:
            return None
        rest = fixed(*more, result=result or types[0].element)(types[1:])
        return None if rest is None else Signature((types[0], *more), rest.result)

    return rule


def same_list(*more: DType) -> TypeRule:
    """Return the rule for a list and further arguments that gives a list of the same type."""

    def rule(types: Sequence[DType]) -> Signature | None:
        return of_list(*more, result=types[0])(types) if types else None

    return rule


def _with_value(result: DType) -> TypeRule:
    """Return the rule for a list and a value of the type of those in it."""

    def rule(types: Sequence[DType]) -> Signature | None:
        of = types[0].element if types else None
        fits = of is not None and len(types) == 2 and common_type((of, types[1])) == of  # noqa: PLR2004
        return Signature((types[0], of), result) if fits and of else None

    return rule


def _size(types: Sequence[DType]) -> Signature | None:
    return Signature((types[0],), INT32) if len(types) == 1 and types[0].is_list else None


def _array(types: Sequence[DType]) -> Signature | None:
    common = common_type(types) if types else None
    return None if common is None or common == NULL else Signature((common,) * len(types), list_type(common))


def _ordered_types(types: Sequence[DType]) -> Signature | None:
    of = types[0].element if len(types) == 2 and types[1] == STRING else None  # noqa: PLR2004 - a list and directions
    return Signature(tuple(types), list_type(of.fields[-1][1])) if of is not None and of.fields else None


def _joined_types(types: Sequence[DType]) -> Signature | None:
    return of_list(STRING, result=STRING)(types) if types and types[0].element == STRING else None


# What they mean.


def _item(values: tuple[Any, ...], place: int) -> Any:
    if not 0 <= place < len(values):
        reason = f"there is no place {place} in a list of {len(values)}, counted from 0"
        raise FailureError(reason)
    return values[place]


def _element_at(values: tuple[Any, ...], place: int) -> Any:
    if not 0 < abs(place) <= len(values):
        reason = f"there is no place {place} in a list of {len(values)}, counted from 1 or from the end by negatives"
        raise FailureError(reason)
    return values[place - (place > 0)]


def known(values: tuple[Any, ...]) -> list[Any]:
    """Return the values of a list that are not NULL."""
    return [v for v in values if v is not None]


def hashable(value: Any) -> Hashable:
    """Return what is equal for values that are: NaN equals itself."""
    if isinstance(value, tuple):
        return tuple(map(hashable, value))
    return "NaN" if value != value else value  # noqa: PLR0124


def _contains(values: tuple[Any, ...], value: Any) -> bool | None:
    found = any(is_equal(v, value) for v in known(values))
    return found or (None if None in values else False)


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    once: dict[Hashable, Any] = {}
    for value in values:
        once.setdefault(hashable(value), value)
    return tuple(once.values())


def in_order(values: tuple[Any, ...]) -> list[Any]:
    """Return the values of a list that are not NULL, sorted."""
    return sorted(known(values), key=value_order)


def _sorted(values: tuple[Any, ...], ascending: bool) -> tuple[Any, ...]:
    some = in_order(values)
    nulls = [None] * (len(values) - len(some))
    return (*nulls, *some) if ascending else (*reversed(some), *nulls)


def _directions_complaint(given: Sequence[Any]) -> str | None:
    return None if set(given[1] or "") <= set(DIRECTIONS) else f"a direction is one of {', '.join(DIRECTIONS)}"


def _in_directions(structs: tuple[Any, ...], directions: str) -> tuple[Any, ...]:
    """Return the last fields of structs, sorted by their first ones, each in its direction."""
    found = known(structs)
    width = len(found[0]) if found else 0
    for place, direction in reversed([*enumerate(directions[:width])]):
        some = [s for s in found if s[place] is not None]
        some.sort(key=lambda s: value_order(s[place]), reverse=direction in "dD")
        nulls = [s for s in found if s[place] is None]
        found = nulls + some if direction in "AD" else some + nulls
    return tuple(s[-1] for s in found)


def _slice(values: tuple[Any, ...], start: int, length: int) -> tuple[Any, ...]:
    if start == 0 or length < 0:
        reason = f"no slice begins at {start} and has {length} values: places are counted from 1, or from the end"
        raise FailureError(reason)
    first = start - 1 if start > 0 else len(values) + start
    return values[first : first + length] if first >= 0 else ()


DIRECTIONS: Final = "aAdD"
"""Up or down, in capitals with NULL first."""
_PLACE_1: Final = "a list and a place in it (int32), counted from 1, or from the end by negative numbers"

LISTS: Final = (
    Function("array", _array, "values of one type, or numbers", nullable=never, sees_null=True,
             python=lambda *values: values),
    Function("size", _size, "a list", aliases=("cardinality", "array_size"), python=len),
    Function("get", of_list(INT32), "a list and a place in it (int32), counted from 0", nullable=always,
             python=lambda values, place: values[place] if 0 <= place < len(values) else None),
    Function("item", of_list(INT32), "a list and a place in it (int32), counted from 0", nullable=always, can_fail=True,
             python=_item),
    Function("element_at", of_list(INT32), _PLACE_1, nullable=always, can_fail=True, python=_element_at),
    Function("array_contains", _with_value(BOOL), "a list and a value", nullable=always, python=_contains),
    Function("array_position", _with_value(INT64), "a list and a value",
             python=lambda a, value: next((i for i, v in enumerate(a, 1) if v is not None and is_equal(v, value)), 0)),
    Function("array_distinct", same_list(), "a list", python=_distinct),
    Function("sort_array", same_list(BOOL), "a list, and whether it goes up (bool)", optional=(True,),
             aliases=("array_sort",), python=_sorted),
    Function("values_in_order", _ordered_types, "a list of structs, and of which fields they are sorted by, how",
             literals=(1,), check=_directions_complaint, python=_in_directions),
    Function("array_min", of_list(), "a list", nullable=always,
             python=lambda a: builtins.min(known(a), key=value_order, default=None)),
    Function("array_max", of_list(), "a list", nullable=always,
             python=lambda a: builtins.max(known(a), key=value_order, default=None)),
    Function("slice", same_list(INT32, INT32), "a list, a place from 1 on and a length", can_fail=True, python=_slice),
    Function("array_join", _joined_types, "a list of strings and what stands between them",
             python=lambda a, between: between.join(known(a))),
    Function("split", fixed(STRING, STRING, INT32, result=list_type(STRING)), "a string, a pattern and a number",
             literals=(1, 2), optional=(-1,), check=lambda given: pattern_complaint(given[1]), can_fail=True,
             python=lambda a, pattern, most: pieces(pattern, a, most)),
)  # fmt: skip


# Builders.


def array(*values: Any) -> Expr:
    """Return the list of some values of one type, NULLs among them.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> c = flow.constant({"a": "int64", "b": "int64", "s": "string"}, [(3, None, "x,y"), (1, 2, "")])
    >>> flow.output(
    ...     "out", c.select(l=tm.array("a", "b"), up=tm.sort_array(tm.array("a", "b")), parts=tm.split("s", ","))
    ... )
    >>> flow.start().snapshot("out")
    l          up         parts
    ---------  ---------  ------
    [1, 2]     [1, 2]     []
    [3, NULL]  [NULL, 3]  [x, y]
    """
    return call("array", *map(operand, values))


def size(values: Any) -> Expr:
    """Return how many values a list has, NULLs counted, an int32; NULL for no list.

    >>> from tidemill.expressions.binding import bind
    >>> from tidemill.expressions.expr import col
    >>> from tidemill.expressions.schema import Schema
    >>> schema = Schema.of({"l": "list<string>"})
    >>> bind(size(col("l")), schema).dtype, bind(get(col("l"), 0), schema).dtype
    (int32, string)
    """
    return call("size", operand(values))


def get(values: Any, place: Any) -> Expr:
    """Return the value at a place of a list, counted from 0, as Spark's ``get`` does; NULL where there is none."""
    return call("get", operand(values), operand(place))


def element_at(values: Any, place: Any) -> Expr:
    """Return the value at a place of a list, counted from 1, or from the end if negative; an error if there is none."""
    return call("element_at", operand(values), operand(place))


def array_contains(values: Any, value: Any) -> Expr:
    """Return whether a value is in a list; NULL where it is not, but a NULL is."""
    return call("array_contains", operand(values), operand(value))


def array_position(values: Any, value: Any) -> Expr:
    """Return where a value first is in a list, counted from 1, an int64; 0 where it is not."""
    return call("array_position", operand(values), operand(value))


def array_distinct(values: Any) -> Expr:
    """Return a list with each of its values once, where it first was; NULL is a value as any other."""
    return call("array_distinct", operand(values))


def sort_array(values: Any, ascending: Any = True) -> Expr:
    """Return a list in the order of its values, NULL first; or, not ``ascending``, the other way round."""
    return call("sort_array", operand(values), operand(ascending))


def array_min(values: Any) -> Expr:
    """Return the least value of a list that is not NULL; NULL where there is none."""
    return call("array_min", operand(values))


def array_max(values: Any) -> Expr:
    """Return the greatest value of a list that is not NULL; NULL where there is none."""
    return call("array_max", operand(values))


def slice(values: Any, start: Any, length: Any) -> Expr:  # noqa: A001 - Spark's name; never star-exported
    """Return the part of a list from a place on, counted from 1, or from the end if negative, of so many values."""
    return call("slice", operand(values), operand(start), operand(length))


def array_join(values: Any, between: str) -> Expr:
    """Return the strings of a list that are not NULL in one, with a literal between them."""
    return call("array_join", operand(values), between)


def split(value: Any, pattern: str, limit: int = -1) -> Expr:
    """Return the list of the parts of a string between matches of a regular expression, a literal in Java's language.

    With a positive ``limit``, a literal, at most so many parts, the last of which is the rest of the string.
    """
    return call("split", operand(value), pattern, limit)
