"""Aggregates that are expressions of others: of counts, sums and lists, so that every engine and every window has them.

Where one is made of a list, a change of a row makes the list of its group anew: the cost is the size of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import attrs

from tidemill.expressions import aggregate_functions as agg
from tidemill.expressions.aggregate_functions import Aggregate, count, first, variance
from tidemill.expressions.display import display
from tidemill.expressions.expr import Expr, call, operand
from tidemill.expressions.functions.choice import when
from tidemill.expressions.functions.lists import array, array_distinct, array_join, size, sort_array
from tidemill.expressions.functions.numbers import sqrt
from tidemill.expressions.sort_keys import asc, desc
from tidemill.expressions.structure import replaced
from tidemill.expressions.windows.specification import Window


@attrs.frozen(eq=False, repr=False)
class Composition(Expr):
    """An aggregate made of other aggregates. Made by ``tm.median("x")`` and its like; use it as an `Aggregate`."""

    text: str
    body: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        """What it is made of."""
        return (self.body,)

    @property
    def label(self) -> Hashable:
        """Nothing: it is what it is made of."""
        return None

    def with_parts(self, parts: Sequence[Expr]) -> Expr:
        """Return what it would be made of."""
        (body,) = parts
        return body

    def filter(self, condition: Any) -> Composition:
        """Return the same aggregate over those rows of the group for which the condition is true (SQL's FILTER)."""
        text = f"{self.text} FILTER (WHERE {display(condition) if isinstance(condition, Expr) else condition})"
        return Composition(text, _each(self.body, lambda aggregate: aggregate.filter(condition)))

    def over(self, window: Window, *, strategy: str = "auto") -> Expr:
        """Return this aggregate over a window: an expression of window calls, for ``select`` and ``with_columns``."""
        return _each(self.body, lambda aggregate: aggregate.over(window, strategy=strategy))

    def __repr__(self) -> str:
        return self.text


def _each(expression: Expr, made: Callable[[Aggregate], Expr]) -> Expr:
    return replaced(expression, lambda part: made(part) if isinstance(part, Aggregate) else None)


def composed(name: str, body: Expr, *arguments: Any) -> Composition:
    """Return an aggregate of a name and arguments that is made of others."""
    shown = ", ".join(display(a) if isinstance(a, (str, Expr)) else repr(a) for a in arguments)
    return Composition(f"{name.upper()}({shown})", body)


def _known(argument: Any, order_by: Any = None) -> Aggregate:
    """Return the list of the values that are not NULL."""
    return agg.list(argument, order_by=order_by).filter(operand(argument).is_not_null())


# Of counts, sums and first rows: a change costs what it changes.


def count_if(condition: Any) -> Aggregate:
    """Return the aggregate that counts the rows for which a condition is true: ``count().filter(condition)``."""
    return count().filter(condition)


def any_value(argument: Any) -> Aggregate:
    """Return the aggregate for some value that is not NULL, always the least one; NULL where there is none."""
    return agg.min(argument)


def min_by(argument: Any, by: Any) -> Aggregate:
    """Return the aggregate for the argument's value in the row in which another value is least.

    Rows in which that other value is NULL take no part; of several rows, see `first`, which this is a short form of.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> bids = flow.constant({"item": "string", "who": "string", "price": "int64"}, [("a", "x", 5), ("a", "y", 3)])
    >>> flow.output("ends", bids.group_by("item").agg(low=tm.min_by("who", "price"), high=tm.max_by("who", "price")))
    >>> flow.start().snapshot("ends")
    item  low  high
    ----  ---  ----
    a     y    x
    """
    return first(argument, order_by=asc(operand(by))).filter(operand(by).is_not_null())


def max_by(argument: Any, by: Any) -> Aggregate:
    """Return the aggregate for the argument's value in the row in which another value is greatest, as in `min_by`."""
    return first(argument, order_by=desc(operand(by))).filter(operand(by).is_not_null())


def var_pop(argument: Any) -> Composition:
    """Return the aggregate for the population variance, a float64: NULL for no values, NaN as for `variance`.

    It is the sample variance, which is exact and rounded once, times ``(n - 1) / n``, that is, rounded twice more.
    """
    return composed("var_pop", _population(argument), argument)


def stddev_pop(argument: Any) -> Composition:
    """Return the aggregate for the population standard deviation, the root of `var_pop`."""
    return composed("stddev_pop", sqrt(_population(argument)), argument)


def _population(argument: Any) -> Expr:
    n = count(argument)
    return _around_the_mean(argument) / when(n != 0, n).otherwise(None)


def _around_the_mean(argument: Any) -> Expr:
    """Return the sum of the squares of what values are off their mean."""
    n = count(argument)
    alone = agg.sum(operand(argument) - operand(argument)).cast("float64")  # 0, or NaN of what is not finite
    return when(n == 1, alone).otherwise(variance(argument) * (n - 1))


# Of lists.


def collect_list(argument: Any, *, order_by: Any = None) -> Aggregate:
    """Return the aggregate for the list of the values that are not NULL, otherwise as `list`: never NULL."""
    return _known(argument, order_by)


def collect_set(argument: Any) -> Composition:
    """Return the aggregate for the list of the different values that are not NULL, in their order; never NULL.

    A change makes the list of its group anew.
    """
    return composed("collect_set", sort_array(array_distinct(_known(argument))), argument)


def string_agg(argument: Any, separator: Any = "", *, order_by: Any = None, distinct: bool = False) -> Composition:
    """Return the aggregate for the strings that are not NULL in one, with a literal between them; NULL for none.

    They are in the order of their values, unless ``order_by`` is given, which is as for `first`; with ``distinct``
    each once. Over a window the order is the window's. A change makes the string of its group anew.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> c = flow.constant({"k": "string", "t": "int64", "s": "string"}, [("a", 2, "x"), ("a", 1, "z"), ("a", 3, "y")])
    >>> flow.output("out", c.group_by("k").agg(s=tm.string_agg("s", ", "), t=tm.string_agg("s", order_by="t")))
    >>> flow.start().snapshot("out")
    k  s        t
    -  -------  ---
    a  x, y, z  zxy
    """
    values: Expr = _known(argument, order_by)
    values = array_distinct(values) if distinct else values
    return composed(
        "string_agg", when(size(values) > 0, array_join(values, separator)).otherwise(None), argument, separator
    )


def median(argument: Any) -> Composition:
    """Return the aggregate for the median of numbers, a float64: the mean of the middle two where there are two.

    It is exact and rounded once, and NULL for no values; NaN is the greatest. A change costs the size of its group.

    >>> import tidemill as tm
    >>> flow = tm.Dataflow()
    >>> c = flow.constant({"k": "string", "x": "int64"}, [("a", 1), ("a", 2), ("a", 10), ("a", 3)])
    >>> found = c.group_by("k").agg(m=tm.median("x"), p=tm.percentile("x", 0.9), d=tm.percentile_disc("x", 0.5))
    >>> flow.output("out", found)
    >>> flow.start().snapshot("out")
    k  m    p    d
    -  ---  ---  -
    a  2.5  7.9  2
    """
    return composed("median", call("list_percentile", _known(argument), 0.5, False), argument)


def percentile(argument: Any, share: Any, *, descending: bool = False) -> Composition:
    """Return the aggregate for the number at a share of the way from the least to the greatest, a float64.

    ``share`` is a literal from 0 to 1, and ``descending`` begins with the greatest: SQL's ``PERCENTILE_CONT``. Between
    two numbers it is of both in proportion. All else is as for `median`.
    """
    return composed("percentile", call("list_percentile", _known(argument), share, descending), argument, share)


def percentile_disc(argument: Any, share: Any, *, descending: bool = False) -> Composition:
    """Return the aggregate for the first value, in order, up to which there is a share of the values, itself included.

    Values may be of any type, which is the result's. All else is as for `percentile`.
    """
    values = _known(argument)
    return composed("percentile_disc", call("list_percentile_disc", values, share, descending), argument, share)


def mode(argument: Any, *, descending: bool = False) -> Composition:
    """Return the aggregate for the value that is there most often, of several the least, or the greatest.

    NULL is none of them. A change costs the size of its group.
    """
    return composed("mode", call("list_mode", _known(argument), descending), argument)


def bit_and(argument: Any) -> Composition:
    """Return the aggregate for the bits that all whole numbers have; NULL for none. A change costs its group's size."""
    return composed("bit_and", call("list_bit_and", _known(argument)), argument)


def bit_or(argument: Any) -> Composition:
    """Return the aggregate for the bits that any of the whole numbers has. All else is as for `bit_and`."""
    return composed("bit_or", call("list_bit_or", _known(argument)), argument)


def bit_xor(argument: Any) -> Composition:
    """Return the aggregate for the bits that an odd number of the whole numbers have; else it is as `bit_and`."""
    return composed("bit_xor", call("list_bit_xor", _known(argument)), argument)


def _both(y: Any, x: Any) -> Expr:
    return operand(y).is_not_null() & operand(x).is_not_null()


def _regression(name: str, wanted: str, y: Any, x: Any) -> Composition:
    pairs = agg.list(array(operand(y).cast("float64"), operand(x).cast("float64"))).filter(_both(y, x))
    return composed(name, call("list_regression", pairs, wanted), y, x)


def covar_pop(y: Any, x: Any) -> Composition:
    """Return the aggregate for the population covariance of two numbers, where neither is NULL: a float64.

    It is exact and rounded once, NULL for no pairs, and NaN where a number is NaN or infinite. A change costs the size
    of its group.
    """
    return _regression("covar_pop", "covar_pop", y, x)


def covar_samp(y: Any, x: Any) -> Composition:
    """Return the aggregate for the sample covariance, NULL for fewer than two pairs. All else is as for `covar_pop`."""
    return _regression("covar_samp", "covar_samp", y, x)


def corr(y: Any, x: Any) -> Composition:
    """Return the aggregate for the coefficient of correlation; NULL where all of y, or of x, are the same.

    It is the root of its square, which is exact and rounded once. All else is as for `covar_pop`.
    """
    return _regression("corr", "corr", y, x)


def regr_slope(y: Any, x: Any) -> Composition:
    """Return the aggregate for the slope of the line that fits y best; NULL where all of x are the same.

    All else is as for `covar_pop`.
    """
    return _regression("regr_slope", "slope", y, x)


def regr_intercept(y: Any, x: Any) -> Composition:
    """Return the aggregate for y at x = 0 on the line that fits best. All else is as for `regr_slope`."""
    return _regression("regr_intercept", "intercept", y, x)


def regr_r2(y: Any, x: Any) -> Composition:
    """Return the aggregate for the square of the correlation, 1 where all of y are the same; else as `regr_slope`."""
    return _regression("regr_r2", "r2", y, x)


def regr_sxy(y: Any, x: Any) -> Composition:
    """Return the aggregate for the sum of the products of what y and x are off their means; else as `covar_pop`."""
    return _regression("regr_sxy", "sxy", y, x)


def regr_count(y: Any, x: Any) -> Aggregate:
    """Return the aggregate that counts the rows in which neither is NULL."""
    return count().filter(_both(y, x))


def _where_both(argument: Any, other: Any) -> Expr:
    return when(operand(other).is_not_null(), operand(argument).cast("float64")).otherwise(None)


def regr_avgx(y: Any, x: Any) -> Aggregate:
    """Return the aggregate for the mean of x where neither is NULL, a float64."""
    return Aggregate("avg", _where_both(x, y))


def regr_avgy(y: Any, x: Any) -> Aggregate:
    """Return the aggregate for the mean of y where neither is NULL, a float64."""
    return Aggregate("avg", _where_both(y, x))


def regr_sxx(y: Any, x: Any) -> Composition:
    """Return the aggregate for the sum of the squares of what x is off its mean, where neither is NULL.

    As `var_pop` it is made of the sample variance, and a change costs what it changes.
    """
    return composed("regr_sxx", _around_the_mean(_where_both(x, y)), y, x)


def regr_syy(y: Any, x: Any) -> Composition:
    """Return the aggregate for the sum of the squares of what y is off its mean. All else is as for `regr_sxx`."""
    return composed("regr_syy", _around_the_mean(_where_both(y, x)), y, x)
