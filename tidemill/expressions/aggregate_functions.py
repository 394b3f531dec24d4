"""Aggregate functions as the user writes them: expressions of a group's rows, to be used in ``agg``."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, Final

import attrs

from tidemill.errors import SchemaError
from tidemill.expressions.display import display
from tidemill.expressions.expr import Expr, call, lit, operand
from tidemill.expressions.functions.lists import DIRECTIONS
from tidemill.expressions.sort_keys import SortKey, asc, desc, sort_keys
from tidemill.expressions.windows.calls import window_call
from tidemill.expressions.windows.frames import UNBOUNDED
from tidemill.expressions.windows.functions import first_value, last_value
from tidemill.expressions.windows.specification import Window

DISTINCT: Final = {f"{name}_distinct": name for name in ("count", "sum", "avg", "variance", "stddev")}
"""Aggregates of the different values of a group, and what they are of the rows that these make."""

# The public names are SQL's; `from tidemill import *` leaves those that would shadow a builtin out.


@attrs.frozen(eq=False, repr=False)
class Aggregate(Expr):
    """An aggregate function of a group's rows, by itself or in an expression. Made by ``tm.count()``, ``tm.sum("x")``.

    A string in it is a column or SQL text: which of them, the schema says to which it is bound.

    >>> sum("delay").filter("delay > 0") / count()
    SUM(delay) FILTER (WHERE delay > 0) / COUNT(*)
    """

    reads_text: ClassVar[bool] = True

    function: str
    argument: Expr | str | None = None
    condition: Expr | str | None = None
    order_by: tuple[SortKey, ...] | None = None

    def filter(self, condition: Any) -> Aggregate:
        """Return the same aggregate over those rows of the group for which the condition is true (SQL's FILTER).

        Of conditions that are given one after the other, all have to be true.
        """
        both = _as_given(condition)
        if self.condition is not None:
            both = call("and", operand(self.condition), operand(both))
        return attrs.evolve(self, condition=both)

    def over(self, window: Window, *, distinct: bool = False, strategy: str = "auto") -> Expr:
        """Return the call of this aggregate over a window, with ``distinct`` of each of the frame's values once.

        An expression for ``select`` and ``with_columns``: for each row the aggregate of the rows of its frame. For
        ``strategy`` see `WindowFunction.over`. `min_by` and `max_by` are kept up
        to date as `min` and `max` are.
        """
        if self.function in DISTINCT:
            return attrs.evolve(self, function=DISTINCT[self.function]).over(window, distinct=True, strategy=strategy)
        name = self.function
        if self.order_by is not None:
            return self._extreme(window, strategy)
        if distinct and (name == "list" or self.argument is None):
            why = "its values are in an order, in which those that are equal would have no one place"
            msg = f"{name} DISTINCT over a window: " + (why if name == "list" else "it needs an argument")
            raise SchemaError(msg)
        return window_call(self, name, window, strategy, distinct=distinct)

    def _extreme(self, window: Window, strategy: str) -> Expr:
        """Return the value in the least or greatest struct of the order, the hash that breaks ties, and the value."""
        keys, name = self.order_by or (), self.function
        if window.frame.whole:
            return self._of_partition(window, strategy)
        as_text = [k.text for k in keys if k.text is not None]
        if name == "list" and not as_text:
            return self._sorted_frame(window, strategy)
        if name == "list" or len(keys) > 1 or as_text or keys[0].nulls_first is keys[0].descending:
            other = f"use tm.{name}_value(...), or tm.min_by"
            if name == "list":
                other = f"for another one write tm.asc or tm.desc in place of {as_text[0]!r}"
            msg = f"{name} with order_by= over a window: the window has the order; {other}"
            raise SchemaError(msg)
        (key,) = keys
        tie = -HashOfRow() if key.descending else HashOfRow()
        value = {"by": operand(_as_given(key.expression)), "tie": tie, "value": operand(_as_given(self.argument))}
        whole = call("named_struct", *(part for pair in value.items() for part in pair))
        function = "min" if (name == "first") is not key.descending else "max"
        called = window_call(Aggregate(function, whole, self.condition), function, window, strategy)
        return attrs.evolve(called, meant=self).field("value")

    def _sorted_frame(self, window: Window, strategy: str) -> Expr:
        """Return the list of a frame's values with what they are sorted by and the hash that breaks ties, sorted."""
        by = [operand(_as_given(k.expression)) for k in self.order_by or ()]
        parts = [*by, HashOfRow(), operand(_as_given(self.argument))]
        whole = call("named_struct", *(part for i, value in enumerate(parts) for part in (f"{i}", value)))
        called = window_call(Aggregate("list", whole, self.condition), "list", window, strategy)
        letters = [DIRECTIONS[2 * k.descending + k.nulls_first] for k in self.order_by or ()]
        return call("values_in_order", attrs.evolve(called, meant=self), "".join(letters) + DIRECTIONS[0])

    def _of_partition(self, window: Window, strategy: str) -> Expr:
        """Return the value in the partition's first row, or last, or the list, in this order and not the window's.

        Rows that take no part are at the other end, with NULL.
        """
        if self.function == "list":
            ordered = window.order_by(*(self.order_by or ())).rows_between(UNBOUNDED, UNBOUNDED)
            return window_call(attrs.evolve(self, order_by=None), "list", ordered, strategy)
        keys, value, is_first = self.order_by or (), operand(_as_given(self.argument)), self.function == "first"
        if self.condition is not None:
            condition = operand(_as_given(self.condition))
            value = call("case", condition, value, None)
            apart = call("case", condition, 0, 1)
            keys = (asc(apart) if is_first else desc(apart), *keys)
        function = (first_value if is_first else last_value)(value)
        ordered = window.order_by(*keys).rows_between(UNBOUNDED, UNBOUNDED)
        return attrs.evolve(window_call(function, function.function, ordered, strategy), meant=self)

    @property
    def _operands(self) -> tuple[Expr | str | None, ...]:
        return self.argument, self.condition, *(_as_given(k.expression) for k in self.order_by or ())

    @property
    def parts(self) -> tuple[Expr, ...]:
        return tuple(o for o in self._operands if isinstance(o, Expr))

    @property
    def label(self) -> Hashable:
        texts = tuple("" if isinstance(o, Expr) else o for o in self._operands)
        return self.function, texts, tuple((k.descending, k.nulls_first) for k in self.order_by or ())

    def __repr__(self) -> str:
        argument = "*" if self.argument is None else display(self.argument)
        if self.function in DISTINCT:
            text = f"{DISTINCT[self.function].upper()}(DISTINCT {argument})"
        elif self.order_by is None:
            text = f"{self.function.upper()}({argument})"
        else:
            keys = ", ".join(f"{display(_as_given(k.expression))}{k.direction}" for k in self.order_by)
            text = f"{self.function.upper()}({argument} ORDER BY {keys})"
        return text if self.condition is None else f"{text} FILTER (WHERE {display(self.condition)})"


@attrs.frozen(eq=False, repr=False)
class HashOfRow(Expr):
    """The hash that breaks ties, over columns that are known where a call is bound to its rows."""

    @property
    def parts(self) -> tuple[Expr, ...]:
        return ()

    @property
    def label(self) -> Hashable:
        return None

    def __repr__(self) -> str:
        return "HASH"


def _as_given(value: Any) -> Expr | str:
    return value if isinstance(value, str) else lit(value)


def _aggregate(function: str, argument: Any, *, distinct: bool = False) -> Aggregate:
    return Aggregate(f"{function}_distinct" if distinct else function, _as_given(argument))


def _ordered(function: str, argument: Any, order_by: Any) -> Aggregate:
    return Aggregate(function, _as_given(argument), order_by=tuple(sort_keys(order_by)))


def count(argument: Any = None) -> Aggregate:
    """Return the aggregate that counts a group's rows, or those in which the argument is not NULL. Type int64."""
    return Aggregate("count") if argument is None else _aggregate("count", argument)


def sum(argument: Any, *, distinct: bool = False) -> Aggregate:  # noqa: A001 - SQL's name
    """Return the aggregate that adds up the values that are not NULL; NULL where there are none.

    int32 and int64 give int64, float64 gives float64 (exact, rounded once, as ``math.fsum``), decimal(p,s) gives
    decimal(p+10,s). Overflow is judged on the value at a time, never on partial sums. With ``distinct`` each different
    value counts once, as for `count_distinct`; so it does in `avg`, `variance` and `stddev`.
    """
    return _aggregate("sum", argument, distinct=distinct)


def avg(argument: Any, *, distinct: bool = False) -> Aggregate:
    """Return the aggregate for the mean of the values that are not NULL; NULL where there are none.

    Integers: the exact sum over the count, rounded once to float64. Floats: the correctly rounded sum over the count.
    decimal(p,s) gives decimal(p+4,s+4), halves rounded away from zero.
    """
    return _aggregate("avg", argument, distinct=distinct)


def min(argument: Any) -> Aggregate:  # noqa: A001 - SQL's name
    """Return the aggregate for the least value that is not NULL; NULL where there is none.

    NaN is the greatest float, False is less than True, strings go by code point, lists by their values. The type is
    the argument's.
    """
    return _aggregate("min", argument)


def max(argument: Any) -> Aggregate:  # noqa: A001 - SQL's name
    """Return the aggregate for the greatest value that is not NULL; NULL where there is none. Order as for `min`."""
    return _aggregate("max", argument)


def count_distinct(argument: Any, *more: Any) -> Aggregate:
    """Return the aggregate that counts the different values that are not NULL. Type int64.

    Of several arguments it counts the different combinations in which none is NULL. As `distinct` has it, a value
    counts where its own count is positive. Cost: a change of a row is a change of one value, whatever the size of the
    group.
    """
    if more:
        argument = call("row_text", *map(operand, (argument, *more)))
    return _aggregate("count", argument, distinct=True)


def bool_or(argument: Any) -> Aggregate:
    """Return the aggregate that is true where any value is; NULL where there are none that are not NULL."""
    return _aggregate("bool_or", argument)


def bool_and(argument: Any) -> Aggregate:
    """Return the aggregate that is true where no value is false; NULL where there are none that are not NULL."""
    return _aggregate("bool_and", argument)


def variance(argument: Any, *, distinct: bool = False) -> Aggregate:
    """Return the aggregate for the sample variance, a float64: worked out exactly and rounded once.

    NULL for fewer than two values that are not NULL, NaN where a value is NaN or infinite.
    """
    return _aggregate("variance", argument, distinct=distinct)


def stddev(argument: Any, *, distinct: bool = False) -> Aggregate:
    """Return the aggregate for the sample standard deviation, the root of the `variance`."""
    return _aggregate("stddev", argument, distinct=distinct)


def first(argument: Any, *, order_by: Any) -> Aggregate:
    """Return the aggregate for the value in the first row of the group, in an order. The type is the argument's.

    ``order_by`` is a column, an expression, ``tm.asc(...)`` or ``tm.desc(...)``, SQL text such as
    ``"x desc nulls first"``, or a list of them; ties are broken by a fixed hash of what the row had before columns were
    added to it, then by the row. NULL is a value as any other: where the first row has NULL, that is the result; to
    pass over such rows, ``.filter("x IS NOT NULL")``. Rows for which a filter's condition is not true take no part;
    where none is left, the result is NULL. A row with a negative count is an error. Cost: at top level a change costs
    the logarithm of the group's size.
    """
    return _ordered("first", argument, order_by)


def last(argument: Any, *, order_by: Any) -> Aggregate:
    """Return the aggregate for the value in the last row of the group, in an order. All else is as for `first`."""
    return _ordered("last", argument, order_by)


def list(argument: Any, *, order_by: Any = None) -> Aggregate:  # noqa: A001 - SQL's name
    """Return the aggregate for the list of the values of all rows, NULLs among them: type ``list<T>``, never NULL.

    A row that is there n times is in it n times. The list is sorted by value, NULL first, unless ``order_by`` is given,
    which is as for `first`. Rows for which a filter's condition is not true take no part; where none is left, the list
    is empty, as Spark's ``collect_list`` has it (which leaves NULLs out, as ``.filter("x IS NOT NULL")`` does here;
    DuckDB's ``list`` keeps NULLs, and is NULL where no row is left). In rows lists are tuples, in Arrow lists. A value
    (with ``order_by`` a row) with a negative count is an error. Cost: a change makes the lists of the groups it is in
    anew; lists that were there before are held until ``run.compact()``.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> c = flow.constant({"k": "string", "t": "int64", "x": "int64"}, [("a", 1, 5), ("a", 3, 2), ("a", 2, None)])
    >>> found = c.group_by("k").agg(l=tm.list("x"), m=tm.list("x", order_by="t"), last=tm.last("x", order_by="t"))
    >>> flow.output("lists", found)
    >>> flow.start().snapshot("lists")
    k  l             m             last
    -  ------------  ------------  ----
    a  [NULL, 2, 5]  [5, NULL, 2]  2
    """
    return _aggregate("list", argument) if order_by is None else _ordered("list", argument, order_by)
