"""Threshold, Reduce and the check of unique inputs by the embedded engine's kernels, a partition of keys at a time.

One round: the new updates, what the operator's arrangements hold of the keys they touch and the times owed meet in one
table, partitioned by key; `KeyedTask` does the rest. State is not shuffled but for the touched keys.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import attrs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.lattice import Antichain, Time
from tidemill.dataflow.nodes import Node
from tidemill.expressions.schema import Schema
from tidemill.renderer.spark.failures import in_task
from tidemill.renderer.spark.frames import DIFF, Frame, consolidated, is_small, materialised, times, worked_out
from tidemill.renderer.spark.keyed_tasks import DUE, KIND, NEW, STORE, KeyedTask, Layout, layout_of
from tidemill.renderer.spark.state import Round
from tidemill.renderer.spark.types import spark_type, struct

__all__ = ["Keyed", "KeyedRound", "due_line", "lines_of", "touched"]


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
    now: Round
    lower: Antichain
    upper: Antichain
    one_time: bool = attrs.field(default=False, kw_only=True)
    """Whether all updates of all operators are known to be at one user time."""
    layout: Layout = attrs.field(init=False)

    @layout.default
    def _layout(self) -> Layout:
        return layout_of(self.node)

    def once(self, delta: Frame | None, due: DataFrame | None) -> Keyed:
        """Return what new updates come to where nothing is stored and nothing will be: not worked out yet."""
        lines = [self._new(delta.data)] if delta is not None else []
        found = self._found([*lines, *([due] if due is not None else [])], keeps=False)
        least = (0,) * self.users  # the time of what is due
        time = least if delta is None else delta.time if due is None or delta.time == least else None
        return Keyed(self._change(found, rows=None, time=time))

    def step(
        self, delta: Frame | None, stored: Sequence[Frame], due: DataFrame | None, sums: DataFrame | None = None
    ) -> Keyed:
        """Return what new updates, those stored and times owed come to, worked out.

        ``sums`` are lines of what the new updates come to in the operator's only arrangement, in their place.
        """
        new = materialised(consolidated(delta)) if delta is not None and sums is None else None
        if new is None and due is None and sums is None:
            return Keyed(None)
        lines = [self._new(new.data)] if new is not None else []
        lines += [one for one in (due, sums) if one is not None]
        if stored:
            keys = functools.reduce(DataFrame.union, [line.select(*self._keys) for line in lines]).distinct()
            few = due is None and new is not None and is_small(new)
            lines.append(touched(stored, keys, self._keys, few=few))
        alone = self.one_time or not (stored or due is not None)
        time = delta.time if delta is not None and alone else None
        return self._counted(self._found(lines, keeps=True, summed=sums is not None), time)

    def _counted(self, found: DataFrame, time: Time | None) -> Keyed:
        kinds = {"made": self._is_made(), "owed": F.col(KIND) == DUE, "kept": F.col(KIND) >= STORE}
        sums = [F.count(F.when(is_kind, 1)).alias(name) for name, is_kind in kinds.items()]
        data, counts = worked_out(found, *sums)
        owed = data.filter(F.col(KIND) == DUE) if counts["owed"] else None
        change = self._change(data, rows=counts["made"], time=time) if counts["made"] else None
        stays = data if owed is None else data.filter(F.col(KIND) != DUE)
        width = len(self.layout.fields)
        kept = Frame(stays, width, 0, rows=counts["kept"], cheap=True, above=0) if counts["kept"] else None
        return Keyed(change, owed, kept)

    @property
    def _keys(self) -> list[str]:
        return [f"c{k}" for k in self.layout.keys]

    def _found(self, lines: list[DataFrame], *, keeps: bool, summed: bool = False) -> DataFrame:
        table = functools.reduce(DataFrame.union, lines)
        table = table.repartition(*self._keys) if self._keys else table.coalesce(1)
        around = {"users": self.users, "now": self.now, "lower": self.lower, "upper": self.upper}
        task = KeyedTask.of(self.node, layout=self.layout, keeps=keeps, summed=summed, **around)
        return table.mapInArrow(in_task(task.run), struct(Schema(tuple(self.layout.fields))))

    def _new(self, data: DataFrame) -> DataFrame:
        """Return updates of the input as lines of the table."""
        columns = [f"c{i}" for i in range(len(self.layout.given))]
        return lines_of(self.layout, NEW, data, [*columns, *times(self.layout.coordinates)], {DIFF: "w0"})

    def _is_made(self) -> Column:
        """Return which lines change the output."""
        last = F.col(KIND) == STORE + len(self.layout.stores) - 1
        return last & (F.col(f"w{self.layout.made_weight}") != 0)

    def _change(self, found: DataFrame, rows: int | None, time: Time | None) -> Frame:
        """Return the updates of the output among the lines that the task gave."""
        row = [F.col(name).alias(f"c{i}") for i, name in enumerate(self.layout.made)]
        diff = F.col(f"w{self.layout.made_weight}").alias(DIFF)
        data = found.filter(self._is_made()).select(*row, *times(self.layout.coordinates), diff)
        known = rows is not None
        above = 0 if known else None
        alone = self.layout.made == self.layout.stores[-1].columns  # without their keys, rows of groups may be equal
        return Frame(data, len(row), self.layout.coordinates, time, rows, known, above, consolidated=alone)


def lines_of(
    layout: Layout, kind: int, data: DataFrame, same: Sequence[str], renamed: dict[str, str] | None = None
) -> DataFrame:
    """Return a table as lines of a kind: some of its columns have their names there, others get them."""
    found = {name: F.col(name) for name in same} | {new: F.col(old) for old, new in (renamed or {}).items()}
    found[KIND] = F.lit(kind)
    empty = {f.name: F.lit(None).cast(spark_type(f.dtype)) for f in layout.fields if f.name not in found}
    return data.select(*({**found, **empty}[f.name].alias(f.name) for f in layout.fields))


def due_line(spark: SparkSession, node: Node) -> DataFrame:
    """Return a line that says to look at a group without keys at the least time."""
    layout = layout_of(node)
    time = {name: F.lit(0).cast("bigint") for name in times(layout.coordinates)}
    data = spark.range(1).select(*(value.alias(name) for name, value in time.items()))
    return lines_of(layout, DUE, data, list(time))


def touched(batches: Sequence[Frame], keys: DataFrame, names_of_keys: list[str], *, few: bool) -> DataFrame:
    """Return those of the stored lines whose key is among these."""
    stored = functools.reduce(DataFrame.union, [batch.data for batch in batches])
    if not names_of_keys:
        return stored
    renamed = keys.toDF(*(f"k_{name}" for name in names_of_keys))
    same = [F.col(name).eqNullSafe(F.col(f"k_{name}")) for name in names_of_keys]
    return stored.join(F.broadcast(renamed) if few else renamed, functools.reduce(Column.__and__, same), "left_semi")
