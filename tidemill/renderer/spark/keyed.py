"""Threshold, Reduce and the check of unique inputs by the embedded engine's kernels, a partition of keys at a time.

One round: the new updates, the stored ones of the keys they touch and the times owed meet in one table, partitioned by
key; `KeyedTask` does the rest. State is not shuffled but for the touched keys.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import attrs
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.collections.schema import Field, Schema
from tidemill.collections.types import INT32, INT64
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Node, Reduce
from tidemill.renderer.spark.failures import in_task
from tidemill.renderer.spark.frames import DIFF, Frame, columns, consolidated, is_small, materialised, names, times
from tidemill.renderer.spark.keyedtasks import DUE, GIVEN, KIND, MADE, NEW, KeyedTask, Layout
from tidemill.renderer.spark.state import Loops
from tidemill.renderer.spark.types import spark_type, struct

__all__ = ["Keyed", "KeyedRound", "due_line", "layout_of", "touched"]


def layout_of(node: Node) -> Layout:
    """Return the columns of a keyed operator's tables."""
    given: Schema = node.inputs[0].schema if node.inputs else node.schema
    if isinstance(node, Reduce):
        return Layout(given, node.schema, node.keys, node.scope.coordinates)
    return Layout(given, Schema(()), tuple(range(len(given))), node.scope.coordinates)


@attrs.frozen(eq=False)
class Keyed:
    """What came of a round: the change of the output, the times owed to later rounds, and what is to be kept."""

    change: Frame | None
    owed: DataFrame | None = None
    kept: Frame | None = None


@attrs.frozen(eq=False)
class KeyedRound:
    """A round of a keyed operator."""

    node: Node
    users: int
    now: Loops
    lower: Antichain
    upper: Antichain

    def once(self, delta: Frame | None, due: DataFrame | None) -> Keyed:
        """Return what new updates come to where nothing is stored and nothing will be: not worked out yet."""
        lines = [self._lines(NEW, delta.data)] if delta is not None else []
        found = self._found([*lines, *([due] if due is not None else [])], keeps=False)
        time = delta.time if delta is not None else (0,) * self.users
        return Keyed(self._change(found, rows=None, time=time))

    def step(self, delta: Frame | None, stored: Sequence[Frame], due: DataFrame | None) -> Keyed:
        """Return what new updates, those stored and times owed come to, worked out."""
        new = materialised(consolidated(delta)) if delta is not None else None
        if new is None and due is None:
            return Keyed(None)
        lines = [self._lines(NEW, new.data)] if new is not None else []
        lines += [due] if due is not None else []
        if stored:
            keys = functools.reduce(DataFrame.union, [line.select(*self._keys) for line in lines]).distinct()
            few = due is None and new is not None and is_small(new)
            lines.append(touched(stored, keys, self._keys, few=few))
        return self._counted(self._found(lines, keeps=True), new)

    def _counted(self, found: DataFrame, new: Frame | None) -> Keyed:
        seen = Observation()
        kinds = {"made": MADE, "owed": DUE, "kept": GIVEN}
        sums = [F.count(F.when(F.col(KIND) == kind, 1)).alias(name) for name, kind in kinds.items()]
        data = found.observe(seen, *sums).localCheckpoint()
        counts = seen.get
        owed = data.filter(F.col(KIND) == DUE) if counts["owed"] else None
        time = new.time if new is not None else None
        change = self._change(data, rows=counts["made"], time=time) if counts["made"] else None
        layout = layout_of(self.node)
        stays = data if owed is None else data.filter(F.col(KIND) != DUE)
        rows = counts["made"] + counts["kept"]
        kept = Frame(stays, len(layout.fields), 0, rows=rows, cheap=True, above=0) if rows else None
        return Keyed(change, owed, kept)

    @property
    def _keys(self) -> list[str]:
        return [f"c{k}" for k in layout_of(self.node).keys]

    def _found(self, lines: list[DataFrame], *, keeps: bool) -> DataFrame:
        layout = layout_of(self.node)
        table = functools.reduce(DataFrame.union, lines)
        table = table.repartition(*self._keys) if self._keys else table.coalesce(1)
        fields = {"users": self.users, "now": self.now, "lower": self.lower, "upper": self.upper, "keeps": keeps}
        task = KeyedTask.of(self.node, layout=layout, **fields)
        schema = Schema((Field(KIND, INT32), *layout.fields, Field(DIFF, INT64)))
        return table.mapInArrow(in_task(task.run), struct(schema))

    def _lines(self, kind: int, data: DataFrame) -> DataFrame:
        """Return updates of the input as lines of the table."""
        layout = layout_of(self.node)
        made = [F.lit(None).cast(spark_type(f.dtype)).alias(f"o{i}") for i, f in enumerate(layout.made)]
        row = [F.col(name) for name in columns(len(layout.given))]
        rest = [F.col(name) for name in [*times(layout.coordinates), DIFF]]
        return data.select(F.lit(kind).alias(KIND), *row, *made, *rest)

    def _change(self, found: DataFrame, rows: int | None, time: tuple[int, ...] | None) -> Frame:
        """Return the updates of the output among the lines that the task gave."""
        layout = layout_of(self.node)
        width = len(self.node.schema)
        row = [F.col(f"o{i}").alias(f"c{i}") for i in range(width)] if layout.made else map(F.col, columns(width))
        rest = [F.col(name) for name in names(width, layout.coordinates)[width:]]
        data = found.filter(F.col(KIND) == MADE).select(*row, *rest)
        return Frame(
            data,
            width,
            layout.coordinates,
            time,
            rows,
            rows is not None,
            None if rows is None else 0,
            consolidated=True,
        )


def due_line(spark: SparkSession, node: Node) -> DataFrame:
    """Return a line that says to look at a group without keys at the least time."""
    layout = layout_of(node)
    empty = [F.lit(None).cast(spark_type(f.dtype)).alias(f.name) for f in layout.fields[: -layout.coordinates]]
    time = [F.lit(0).cast("bigint").alias(name) for name in times(layout.coordinates)]
    return spark.range(1).select(F.lit(DUE).alias(KIND), *empty, *time, F.lit(1).cast("bigint").alias(DIFF))


def touched(batches: Sequence[Frame], keys: DataFrame, names_of_keys: list[str], *, few: bool) -> DataFrame:
    """Return those of the stored lines whose key is among these."""
    stored = functools.reduce(DataFrame.union, [batch.data for batch in batches])
    if not names_of_keys:
        return stored
    renamed = keys.toDF(*(f"k_{name}" for name in names_of_keys))
    same = [F.col(name).eqNullSafe(F.col(f"k_{name}")) for name in names_of_keys]
    return stored.join(F.broadcast(renamed) if few else renamed, functools.reduce(Column.__and__, same), "left_semi")
