"""Reduces of few groups, finished in the driver: it fetches what their rows add up to, and makes of it the output.

Catalyst takes as long to plan and compile how sums of limbs are rounded as it takes to add up a few million rows. For
some thousand groups the driver's whole numbers do that in a moment, and Spark is left with a plain aggregation.

Fetched are the last groups, a few partitions after another, until there are too many. What was shuffled until then is
kept: Spark computes the rest from there, and finishes all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
from pyspark.sql import DataFrame, SparkSession

from tidemill.boundary.exact_sums import root
from tidemill.boundary.update_tables import Names
from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.aggregates import Aggregates, BoundAggregate
from tidemill.renderer.spark import native
from tidemill.renderer.spark.dataframes import updates_of
from tidemill.renderer.spark.exact_squares import FloatSums, Squared
from tidemill.renderer.spark.failures import is_too_large_to_fetch
from tidemill.renderer.spark.frames import Frame
from tidemill.renderer.spark.native import Sums
from tidemill.renderer.spark.session import is_connected

FEW: Final = 10_000
"""Up to so many groups, it is the driver that finishes them."""
_ADAPTIVE: Final = ("spark.sql.adaptive.enabled", "spark.sql.adaptive.coalescePartitions.enabled")
"""Settings with which Spark puts a few rows into one partition: others are fetched one by one."""
_LEAST: Final = -(2**63)

Found = Mapping[str, Sequence[Any]]
"""The groups' keys, sums and extremes: columns, by their names."""


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


def aggregated(node: Reduce, frame: Frame, floats: FloatSums | None, named: Names) -> Frame:
    """Return one row for each group, as `native.aggregated` does; for users and worked out, where groups are few."""
    assert isinstance(node.logic, Aggregates)
    found = native.sums_of_groups(node, frame, floats)
    shown = found.data if native.has_all_groups(node, found.frame) else found.data.filter("n != 0")
    try:
        groups = _first(shown)
    except Exception as error:
        if is_too_large_to_fetch(error):  # long keys; and the plan that failed would fail again
            return native.completed(node, found)
        raise
    if groups is None or _overflows(groups):
        return native.completed(node, attrs.evolve(found, data=shown.localCheckpoint()))
    rest = (*(found.frame.time or ()), 1)
    columns = [groups[f"c{k}"] for k in node.keys]
    columns += [_finished(a, found, groups) for a in node.logic.columns]
    rows = [(*row, *rest) for row in zip(*columns, strict=True)]
    data = updates_of(shown.sparkSession, node, rows, [*named.times, named.diff])
    known: dict[str, bool] = {"cheap": True, "consolidated": True, "inserted": True, "has_users_names": True}
    return Frame(data, len(node.schema), 1, found.frame.time, len(rows), depth=0, **known)


def _first(data: DataFrame) -> Found | None:
    """Return all lines of a table, by its columns; None where there are too many.

    A tail is of the table's own plan, whose shuffle is kept, where `limit` would make another one; and it is read in
    one go, where each partition of `toLocalIterator` has to be asked for.
    """
    lines = data.tail(FEW + 1)
    if not lines:
        return dict.fromkeys(data.columns, ())
    names = lines[0].__fields__  # without asking Java
    return dict(zip(names, zip(*lines, strict=True), strict=True)) if len(lines) <= FEW else None


def _overflows(groups: Found) -> bool:
    """Return whether whole numbers add up to what is none of ours: an error, which Spark will say."""
    return any(_LEAST in sums for name, sums in groups.items() if name[0] == "s" and name[1:].isdigit())


def _finished(a: BoundAggregate, found: Sums, groups: Found) -> Sequence[Any]:
    """Return an aggregate of each group, made of its sums; without any values it is NULL, unless it counts."""
    c = a.column
    if a.function in ("min", "max"):
        return groups[f"{a.function}{c}"]
    counts = groups["rows" if c is None else f"n{c}"]
    if a.function == "count":
        return [count or 0 for count in counts]
    assert c is not None
    names, value = _of_floats(a.function, c, found) if c in found.floats else _of_whole_numbers(a.function, c)
    sums = zip(*(groups[name] for name in names), strict=True)
    return [value(of, count) if count else None for of, count in zip(sums, counts, strict=True)]


Value = Callable[[tuple[Any, ...], int], Any]
"""What a group's sums and its count make."""


def _of_floats(function: str, column: int, found: Sums) -> tuple[list[str], Value]:
    """Return the names of the sums that an aggregate is made of, and how."""
    limbs = found.limbs
    assert limbs is not None
    names = limbs.names(column)
    if function == "sum":
        return names, lambda sums, _: limbs.total(sums)
    if function == "avg":
        return names, lambda sums, count: limbs.total(sums) / count + 0.0  # 0.0 for -0.0
    squared = Squared(limbs)

    def spread(sums: tuple[Any, ...], count: int) -> float | None:
        variance = squared.variance((*sums, count))
        return variance if function == "variance" or variance is None else root(variance)

    return [*names, *squared.names(column)], spread


def _of_whole_numbers(function: str, column: int) -> tuple[list[str], Value]:
    """Return the same for an aggregate of whole numbers or truth values."""
    made: dict[str, Value] = {
        "sum": lambda sums, _: sums[0],
        "avg": lambda sums, count: sums[0] / count + 0.0,
        "bool_or": lambda sums, _: sums[0] > 0,
        "bool_and": lambda sums, count: count - sums[0] <= 0,
    }
    return [f"s{column}"], made[function]
