"""The first rows of groups in Catalyst: where all is at one time, and rows are there as often as they come.

Sorting all rows takes long, and few of them are first. So groups are dealt out to more parts than rows are wanted, and
the best value of each part found: the n-th best of these is a bound that n rows reach. Only rows that do are ranked, by
the order and what breaks its ties. For the bound, the rows are read once more; so that has to be cheap.
"""

from __future__ import annotations

import functools
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.binding import bind
from tidemill.expressions.ordering import OrderColumn, TopK, hash_of_row
from tidemill.expressions.schema import Field, Schema
from tidemill.renderer.spark.frames import Frame, checkpointed, columns, names
from tidemill.renderer.spark.scalars import native_sql

__all__ = ["can_rank", "first_rows"]

_PLACE, _PART, _BEST, _BOUND = "place", "part", "best", "bound"
_MOST: Final = 100
_PARTS: Final = 4
"""How many parts there are for each row that is wanted: the more, the fewer rows reach the bound."""
_MOST_GROUPS: Final = 200_000
"""Bounds of so many groups are broadcast."""
_SHORT: Final = frozenset(("int64", "int32", "float64", "date", "timestamp"))
"""Types whose extremes Spark finds without sorting."""


def can_rank(node: Reduce, frame: Frame) -> bool:
    """Return whether Catalyst finds the first rows of groups as the kernels do, and fast."""
    logic, types = node.logic, node.inputs[0].schema.dtypes
    if not isinstance(logic, TopK) or not frame.inserted or frame.time is None or frame.coordinates != 1:
        return False
    if not frame.cheap or not logic.order or logic.count > _MOST or types[logic.order[0].column].name not in _SHORT:
        return False
    return not any(types[c].is_list for c in (*node.keys, *logic.row, *(o.column for o in logic.order)))


def first_rows(node: Reduce, frame: Frame) -> Frame:
    """Return the first rows of each group, as `can_rank` allows. One job."""
    logic = node.logic
    assert isinstance(logic, TopK)
    keys = [f"c{k}" for k in node.keys]
    ties = [F.expr(_hash(node, logic)), *(F.col(f"c{c}").asc() for c in logic.row)]
    window = Window.partitionBy(*keys).orderBy(*map(_sorted, logic.order), *ties)
    ranked = _candidates(frame, keys, logic).withColumn(_PLACE, F.row_number().over(window))
    first = ranked.filter(F.col(_PLACE) <= logic.count)
    return frame.of(first.select(*names(frame.width, frame.coordinates)), inserted=True)


def _candidates(frame: Frame, keys: list[str], logic: TopK) -> DataFrame:
    """Return rows with all of the first ones of each group, and not many others."""
    by = logic.order[0]
    value, best = F.col(f"c{by.column}"), F.max if by.descending else F.min
    dealt = frame.data.withColumn(_PART, F.monotonically_increasing_id() % (_PARTS * logic.count))
    of_parts = dealt.groupBy(*keys, _PART).agg(best(value).alias(_BEST))
    in_order = F.sort_array(F.collect_list(_BEST), asc=not by.descending)
    bounds = of_parts.groupBy(*keys).agg(F.get(in_order, logic.count - 1).alias(_BOUND))
    bounds, counts = checkpointed(bounds, F.count(F.lit(1)).alias("rows"))
    if counts["rows"] > _MOST_GROUPS:
        return frame.data
    same = [F.col(k).eqNullSafe(F.col(f"k_{k}")) for k in keys]
    bounds = bounds.toDF(*(f"k_{k}" for k in keys), _BOUND)
    reached = value >= F.col(_BOUND) if by.descending else value <= F.col(_BOUND)
    kept = reached | F.col(_BOUND).isNull() | (value.isNull() & F.lit(by.nulls_first))
    return frame.data.join(F.broadcast(bounds), functools.reduce(Column.__and__, same, F.lit(True))).filter(kept)


def _sorted(key: OrderColumn) -> Column:
    column = F.col(f"c{key.column}")
    if key.descending:
        return column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last()


def _hash(node: Reduce, logic: TopK) -> str:
    """Return the hash that breaks ties as Spark SQL, over the row's columns as they are named inside."""
    fields, inside = node.inputs[0].schema.fields, columns(len(node.inputs[0].schema))
    row = Schema(tuple(Field(inside[c], fields[c].dtype) for c in range(len(fields))))
    picked = Schema(tuple(row.fields[c] for c in logic.row))
    text = native_sql(bind(hash_of_row(picked), row))
    assert text is not None, "no column is a list"
    return text
