"""Reduces of few groups, finished in the driver: it fetches what their rows add up to, and makes of it the output.

Catalyst takes as long to plan and compile how sums of limbs are rounded as it takes to add up a few million rows. For
some thousand groups the driver's whole numbers do that in a moment, and Spark is left with a plain aggregation.

Fetched are the last groups, a few partitions after another, until there are too many. What was shuffled until then is
kept: Spark computes the rest from there, and finishes all of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
from pyspark.sql import DataFrame, Row, SparkSession

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

Group = Sequence[Any]
"""A group's keys, sums and extremes."""
Places = Mapping[str, int]
"""Where they are, by their names."""


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
    if groups is None or _overflows(groups):
        return native.completed(node, attrs.evolve(found, data=shown.localCheckpoint()))
    places = _places(groups)
    values: list[Callable[[Group], Any]] = []
    if groups:
        values += (operator.itemgetter(places[f"c{k}"]) for k in node.keys)
        values += (_finish(a, found, places) for a in node.logic.columns)
    rest = (*(found.frame.time or ()), 1)
    rows = [(*(value(g) for value in values), *rest) for g in groups]
    data = updates_of(shown.sparkSession, node, rows, [*named.times, named.diff])
    known: dict[str, bool] = {"cheap": True, "consolidated": True, "inserted": True, "has_users_names": True}
    return Frame(data, len(node.schema), 1, found.frame.time, len(rows), depth=0, **known)


def _first(data: DataFrame) -> list[Row] | None:
    """Return all lines of a table; None where there are too many.

    A tail is of the table's own plan, whose shuffle is kept, where `limit` would make another one; and it is read in
    one go, where each partition of `toLocalIterator` has to be asked for.
    """
    lines = data.tail(FEW + 1)
    return lines if len(lines) <= FEW else None


def _places(groups: Sequence[Row]) -> Places:
    """Return where groups have what, which the first of them tells without asking Java."""
    return {name: i for i, name in enumerate(groups[0].__fields__)} if groups else {}


def _overflows(groups: Sequence[Row]) -> bool:
    """Return whether whole numbers add up to what is none of ours: an error, which Spark will say."""
    sums = [i for name, i in _places(groups).items() if name[0] == "s" and name[1:].isdigit()]
    return any(group[i] == _LEAST for i in sums for group in groups)


def _finish(a: BoundAggregate, found: Sums, places: Places) -> Callable[[Group], Any]:
    """Return how an aggregate is made of a group's sums; without any values it is NULL, unless it counts."""
    c = a.column
    if a.function in ("min", "max"):
        return operator.itemgetter(places[f"{a.function}{c}"])
    count = places["rows" if c is None else f"n{c}"]
    if a.function == "count":
        return lambda group: group[count] or 0
    assert c is not None
    value = _of_floats(a.function, c, found, places) if c in found.floats else _of_whole_numbers(a.function, c, places)
    return lambda group: value(group, group[count]) if group[count] else None


def _of_floats(function: str, column: int, found: Sums, places: Places) -> Callable[[Group, int], float | None]:
    limbs, squared = found.limbs, found.squared
    assert limbs is not None
    of_limbs = _several(limbs.names(column), places)
    if function == "sum":
        return lambda group, _: limbs.total(of_limbs(group))
    if function == "avg":
        return lambda group, count: limbs.total(of_limbs(group)) / count
    assert squared is not None
    of_squares = _several(squared.names(column), places)

    def spread(group: Group, count: int) -> float | None:
        variance = exact_squares.variance_of(squared, of_limbs(group), of_squares(group), count)
        return variance if function == "variance" or variance is None else root(variance)

    return spread


def _several(names: Iterable[str], places: Places) -> Callable[[Group], tuple[Any, ...]]:
    return operator.itemgetter(*(places[name] for name in names))


def _of_whole_numbers(function: str, column: int, places: Places) -> Callable[[Group, int], Any]:
    total = places[f"s{column}"]
    made: dict[str, Callable[[int, int], Any]] = {
        "sum": lambda total, _: total,
        "avg": lambda total, count: total / count,
        "bool_or": lambda total, _: total > 0,
        "bool_and": lambda total, count: count - total <= 0,
    }
    value = made[function]
    return lambda group, count: value(group[total], count)
