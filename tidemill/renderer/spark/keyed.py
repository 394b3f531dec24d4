"""Threshold, Reduce and the check of unique inputs by the embedded engine's kernels, a partition of keys at a time.

In a round, the new updates, the stored updates of their keys and the pending times that are due come together in one
table, partitioned by key; `KeyedKernel` does the rest. Of the state, only what the touched keys have is shuffled.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, cast

import attrs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.lattice import Antichain, Time
from tidemill.dataflow.nodes import Node, Reduce
from tidemill.expressions.windows.bound import Windows
from tidemill.renderer.spark.frames import (
    DIFF,
    Frame,
    checkpointed,
    columns,
    consolidated,
    is_small,
    materialised,
    times,
    united,
    with_keys,
)
from tidemill.renderer.spark.keyed_tasks import DUE, KIND, NEW, STORE, KeyedKernel, Layout, layout_of
from tidemill.renderer.spark.large_windows import windows_of_large
from tidemill.renderer.spark.state import Round
from tidemill.renderer.spark.tasks import applied
from tidemill.renderer.spark.types import spark_type


@attrs.frozen(eq=False)
class KeyedResult:
    """The result of a round: the change of the output, times pending for later rounds, and what is to be stored."""

    change: Frame | None
    pending: DataFrame | None = None
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

    def once(self, delta: Frame | None, due: DataFrame | None) -> KeyedResult:
        """Return the result, not computed yet, where nothing is stored and nothing will be."""
        if delta is None or due is not None or not isinstance(self.node, Reduce) or not self._is_windows:
            return self._once(delta, due)
        large, rest = windows_of_large(self.node, delta)
        if large is None:
            return KeyedResult(None) if rest is None else self._once(rest, None)
        found = large if rest is None else united([large, cast("Frame", self._once(rest, None).change)])
        return KeyedResult(found and attrs.evolve(found, consolidated=self._is_by_group))

    @property
    def _is_windows(self) -> bool:
        return isinstance(getattr(self.node, "logic", None), Windows)

    def _once(self, delta: Frame | None, due: DataFrame | None) -> KeyedResult:
        if delta is not None and delta.time is not None and due is None:
            return KeyedResult(self._at_one_time(delta, delta.time))
        lines = [self._input_lines(delta.data)] if delta is not None else []
        found = self._run_kernel([*lines, *([due] if due is not None else [])])
        least = (0,) * self.users  # the time of what is due
        time = least if delta is None else delta.time if due is None or delta.time == least else None
        return KeyedResult(self._change(found, rows=None, time=time))

    def _at_one_time(self, delta: Frame, time: Time) -> Frame:
        """Return the change where all of the input is at one time: of lines, only what differs is moved."""
        inserted = self._is_windows and delta.inserted
        as_rows = inserted and not delta.consolidated
        found = applied(self._together(delta.data), self._kernel(time=time, as_rows=as_rows))
        *row, diff = found.columns
        whens = (F.lit(t).cast("bigint").alias(name) for t, name in zip(time, times(len(time)), strict=True))
        data = found.select(*row, *whens, diff)
        known = {"consolidated": self._is_by_group and not as_rows, "inserted": inserted}
        return Frame(data, len(row), self.layout.coordinates, time, **known)

    def step(
        self, delta: Frame | None, stored: Sequence[Frame], due: DataFrame | None, sums: DataFrame | None = None
    ) -> KeyedResult:
        """Return the result of new updates, stored ones and pending times that are due, computed and counted.

        Where the operator's only arrangement holds sums, ``sums`` stand for the new updates, as lines of it.
        """
        new = materialised(consolidated(delta)) if delta is not None and sums is None else None
        if new is None and due is None and sums is None:
            return KeyedResult(None)
        lines = [self._input_lines(new.data)] if new is not None else []
        lines += [one for one in (due, sums) if one is not None]
        if stored:
            keys = functools.reduce(
                DataFrame.union, [line.select(*self.layout.key_columns) for line in lines]
            ).distinct()
            few = due is None and new is not None and is_small(new)
            lines.append(touched(stored, keys, self.layout.key_columns, few=few))
        alone = self.one_time or not (stored or due is not None)
        time = delta.time if delta is not None and alone else None
        return self._counted(self._run_kernel(lines, keeps_state=True, summed=sums is not None), time)

    def _counted(self, found: DataFrame, time: Time | None) -> KeyedResult:
        kinds = {"output": self._is_output(), "pending": F.col(KIND) == DUE, "kept": F.col(KIND) >= STORE}
        sums = [F.count(F.when(is_kind, 1)).alias(name) for name, is_kind in kinds.items()]
        data, counts = checkpointed(found, *sums)
        pending = data.filter(F.col(KIND) == DUE) if counts["pending"] else None
        change = self._change(data, rows=counts["output"], time=time) if counts["output"] else None
        stays = data if pending is None else data.filter(F.col(KIND) != DUE)
        width = len(self.layout.fields)
        kept = Frame(stays, width, 0, rows=counts["kept"], cheap=True, depth=0) if counts["kept"] else None
        return KeyedResult(change, pending, kept)

    def _run_kernel(self, lines: list[DataFrame], **how: Any) -> DataFrame:
        return applied(self._together(functools.reduce(DataFrame.union, lines)), self._kernel(**how))

    def _together(self, data: DataFrame) -> DataFrame:
        """Return rows with all of a key in one partition."""
        keys = self.layout.key_columns
        return data.repartition(*keys) if keys else data.coalesce(1)

    def _kernel(self, **how: Any) -> KeyedKernel:
        return KeyedKernel(self.node, self.layout, self.users, self.now, self.lower, self.upper, **how)

    def _input_lines(self, data: DataFrame) -> DataFrame:
        """Return updates of the input as lines of the table."""
        same = [*columns(len(self.layout.row)), *times(self.layout.coordinates)]
        return as_lines(self.layout, NEW, data, same, {DIFF: "w0"})

    def _is_output(self) -> Column:
        """Return whether a line changes the output."""
        last = F.col(KIND) == STORE + len(self.layout.arrangements) - 1
        return last & (F.col(f"w{self.layout.diff_weight}") != 0)

    def _change(self, found: DataFrame, rows: int | None, time: Time | None) -> Frame:
        """Return the updates of the output among the lines that the task gave."""
        row = [F.col(name).alias(f"c{i}") for i, name in enumerate(self.layout.output_columns)]
        diff = F.col(f"w{self.layout.diff_weight}").alias(DIFF)
        data = found.filter(self._is_output()).select(*row, *times(self.layout.coordinates), diff)
        known = rows is not None
        depth = 0 if known else None
        return Frame(data, len(row), self.layout.coordinates, time, rows, known, depth, consolidated=self._is_by_group)

    @property
    def _is_by_group(self) -> bool:
        """Whether the output's rows have the keys of their groups; rows of several groups may be equal without."""
        return self.layout.output_columns == self.layout.arrangements[-1].columns


def as_lines(
    layout: Layout, kind: int, data: DataFrame, same: Sequence[str], renamed: dict[str, str] | None = None
) -> DataFrame:
    """Return a table as lines of a kind: some columns have the right name already, others are renamed."""
    found = {name: F.col(name) for name in same} | {new: F.col(old) for old, new in (renamed or {}).items()}
    found[KIND] = F.lit(kind)
    empty = {f.name: F.lit(None).cast(spark_type(f.dtype)) for f in layout.fields if f.name not in found}
    return data.select(*({**found, **empty}[f.name].alias(f.name) for f in layout.fields))


def first_pending_line(spark: SparkSession, node: Node) -> DataFrame:
    """Return the least time as a pending one of the group without keys."""
    layout = layout_of(node)
    time = {name: F.lit(0).cast("bigint") for name in times(layout.coordinates)}
    data = spark.range(1).select(*(value.alias(name) for name, value in time.items()))
    return as_lines(layout, DUE, data, list(time))


def touched(batches: Sequence[Frame], keys: DataFrame, names_of_keys: list[str], *, few: bool) -> DataFrame:
    """Return the stored lines of these keys."""
    stored = functools.reduce(DataFrame.union, [batch.data for batch in batches])
    return with_keys(stored, F.broadcast(keys) if few else keys, names_of_keys)
