"""Reduces of few groups, finished in the driver: it fetches what their rows add up to, and makes of it the output.

Catalyst takes as long to plan and compile how sums of limbs are rounded as it takes to add up a few million rows. For
some thousand groups the driver's whole numbers do that in a moment, and Spark is left with a plain aggregation.

Fetched are the last groups, a few partitions after another, until there are too many. What was shuffled until then is
kept: Spark computes the rest from there, and finishes all of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
from pyspark.sql import DataFrame, SparkSession

from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.aggregates import Aggregates, BoundAggregate
from tidemill.renderer.embedded.reduce.aggregates import root
from tidemill.renderer.spark import exact_squares, native
from tidemill.renderer.spark.dataframes import Names, updates_of
from tidemill.renderer.spark.exact_floats import Limbs
from tidemill.renderer.spark.failures import is_too_large_to_fetch
from tidemill.renderer.spark.frames import Frame
from tidemill.renderer.spark.native import Sums
from tidemill.renderer.spark.session import is_connected

__all__ = ["aggregated", "applies"]

FEW: Final = 10_000
"""Up to so many groups, it is the driver that finishes them."""
_ADAPTIVE: Final = ("spark.sql.adaptive.enabled", "spark.sql.adaptive.coalescePartitions.enabled")
"""Settings with which Spark puts a few rows into one partition: others are fetched one by one."""
_LEAST: Final = -(2**63)

Group = Mapping[str, Any]
"""A group's sums and extremes by their names."""


def applies(spark: SparkSession, node: Reduce, frame: Frame) -> bool:
    """Return whether a Reduce that Catalyst may compute is one to finish here, if its groups turn out to be few."""
    logic = node.logic
    if not isinstance(logic, Aggregates) or not native.adds_floats(node):
        return False
    if frame.time is None or (node.scalar and frame.time != (0,)):
        return False
    if any(a.function == "list" or (a.input is not None and a.input.is_decimal) for a in logic.columns):
        return False
    return not is_connected(spark) and all(str(spark.conf.get(name)).lower() == "true" for name in _ADAPTIVE)


def aggregated(node: Reduce, frame: Frame, limbs: Limbs | None, named: Names) -> Frame:
    """Return one row for each group, as `native.aggregated` does; for users and worked out, where groups are few."""
    assert isinstance(node.logic, Aggregates)
    found = native.sums_of_groups(node, frame, limbs)
    shown = found.data if native.has_all_groups(node, found.frame) else found.data.filter("n != 0")
    try:
        groups = _first(shown)
    except Exception as error:
        if is_too_large_to_fetch(error):  # long keys; and the plan that failed would fail again
            return native.completed(node, found)
        raise
    if groups is None or any(map(_overflows, groups)):
        return native.completed(node, attrs.evolve(found, data=shown.localCheckpoint()))
    finish = [_finish(a, found) for a in node.logic.columns]
    time = found.frame.time or ()
    keys = [f"c{k}" for k in node.keys]
    rows = [(*(g[k] for k in keys), *(value(g) for value in finish), *time, 1) for g in groups]
    data = updates_of(shown.sparkSession, node, rows, [*named.times, named.diff])
    known: dict[str, bool] = {"cheap": True, "consolidated": True, "inserted": True, "has_users_names": True}
    return Frame(data, len(node.schema), 1, found.frame.time, len(rows), depth=0, **known)


def _first(data: DataFrame) -> list[Group] | None:
    """Return all lines of a table; None where there are too many.

    A tail is of the table's own plan, whose shuffle is kept, where `limit` would make another one; and it is read in
    one go, where each partition of `toLocalIterator` has to be asked for.
    """
    lines = data.tail(FEW + 1)
    return [line.asDict() for line in lines] if len(lines) <= FEW else None


def _overflows(group: Group) -> bool:
    """Return whether whole numbers add up to what is none of ours: an error, which Spark will say."""
    return any(name[0] == "s" and name[1:].isdigit() and value == _LEAST for name, value in group.items())


def _finish(a: BoundAggregate, found: Sums) -> Callable[[Group], Any]:
    """Return how an aggregate is made of a group's sums; without any values it is NULL, unless it counts."""
    c = a.column
    count = "rows" if c is None else f"n{c}"
    if a.function == "count":
        return lambda group: group[count] or 0
    if a.function in ("min", "max"):
        return operator.itemgetter(f"{a.function}{c}")
    assert c is not None
    value = _of_floats(a.function, c, found) if c in found.floats else _of_whole_numbers(a.function, c)
    return lambda group: value(group, group[count]) if group[count] else None


def _of_floats(function: str, column: int, found: Sums) -> Callable[[Group, int], float | None]:
    limbs = found.limbs
    assert limbs is not None
    of_limbs = operator.itemgetter(*limbs.names(column))
    if function == "sum":
        return lambda group, _: limbs.total(of_limbs(group))
    if function == "avg":
        return lambda group, count: limbs.total(of_limbs(group)) / count
    of_squares = operator.itemgetter(*exact_squares.squares_of(column))

    def spread(group: Group, count: int) -> float | None:
        variance = exact_squares.variance_of(of_limbs(group), of_squares(group), count)
        return variance if function == "variance" or variance is None else root(variance)

    return spread


def _of_whole_numbers(function: str, column: int) -> Callable[[Group, int], Any]:
    total = f"s{column}"
    made: dict[str, Callable[[int, int], Any]] = {
        "sum": lambda total, _: total,
        "avg": lambda total, count: total / count,
        "bool_or": lambda total, _: total > 0,
        "bool_and": lambda total, count: count - total <= 0,
    }
    return lambda group, count: made[function](group[total], count)
