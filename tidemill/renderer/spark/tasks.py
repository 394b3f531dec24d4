"""Tasks for executors: work on batches, which meet it in the same types whatever the session's settings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeAlias

import attrs
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Input, Node
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import DType, dtype
from tidemill.renderer.embedded.kernels.codec import Interner, decode_column, encode_column
from tidemill.renderer.embedded.kernels.updates import UpdateArray
from tidemill.renderer.embedded.schedule import Frontier, Region, Round, Schedule
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.transaction import Transaction
from tidemill.renderer.spark.failures import with_encoded_errors
from tidemill.renderer.spark.types import struct

Batches: TypeAlias = Iterator[pa.RecordBatch]

_ROWS: Final = 100_000
"""Rows of a batch that a task gives."""


class Kernel(Protocol):
    """Work of the embedded engine on the whole of a partition, as a matrix of codes with a row for each column."""

    @property
    def given(self) -> Sequence[Field]:
        """The columns that it reads."""

    @property
    def made(self) -> Sequence[Field]:
        """The columns that it makes."""

    def apply(self, given: UpdateArray, interner: Interner) -> UpdateArray:
        """Return its output for a partition that is not empty."""


def applied(data: DataFrame, kernel: Kernel) -> DataFrame:
    """Return the output of a kernel for each partition of a DataFrame, in executors."""

    def run(batches: Batches) -> Batches:
        return run_kernel(kernel, batches)

    wanted = data.select(*(f.name for f in kernel.given))
    return done_in_executors(wanted, run, struct(Schema(tuple(kernel.made))))


def run_kernel(kernel: Kernel, batches: Batches) -> Batches:
    """Give the output of a kernel for a partition."""
    found = [batch for batch in batches if batch.num_rows]
    if not found:
        return
    table, interner = pa.Table.from_batches(found), Interner()
    given = encoded((table.column(f.name) for f in kernel.given), (f.dtype for f in kernel.given), interner)
    made = kernel.apply(given, interner)
    if made.shape[1]:
        columns = [decode_column(codes, f.dtype, interner) for codes, f in zip(made, kernel.made, strict=True)]
        yield from pa.table(columns, [f.name for f in kernel.made]).to_batches(max_chunksize=_ROWS)


def encoded(columns: Iterable[pa.ChunkedArray], types: Iterable[DType], interner: Interner) -> UpdateArray:
    """Return columns as codes."""
    codes = [encode_column(c.cast(t.arrow), t, interner) for c, t in zip(columns, types, strict=True)]
    return np.stack(codes) if codes else np.empty((0, 0), np.int64)


def done_in_executors(data: DataFrame, task: Callable[[Batches], Batches], schema: Any) -> DataFrame:
    """Return the output of a task for a DataFrame's batches, in executors."""
    return data.mapInArrow(with_encoded_errors(_in_own_types(task)), schema)


def _in_own_types(task: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Return a task that gets columns in the types that kernels know; texts come in others where Spark is told so."""

    @functools.wraps(task)
    def run(batches: Batches) -> Batches:
        return task(map(_cast, batches))

    return run


def _cast(batch: pa.RecordBatch) -> pa.RecordBatch:
    types = [dtype(t).arrow for t in batch.schema.types]
    if types == batch.schema.types:
        return batch
    columns = [c if c.type == t else c.cast(t) for c, t in zip(batch.columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


# -- the embedded engine's operators, alone ----------------------------------------------------------------------------


def detached(node: Node) -> Any:
    """Return a copy of a node cut off from the rest of its graph, to be sent to executors."""
    inputs = tuple(
        Input(id=i.id, name=i.name, scope=_bare(i), schema=i.schema, site=i.site, inputs=()) for i in node.inputs
    )
    return attrs.evolve(node, scope=_bare(node), inputs=inputs, call=None)


def _bare(node: Node) -> Any:
    return attrs.evolve(node.scope, parent=None)


def put_below(spine: Spine, stored: UpdateArray) -> None:
    """Have a spine hold what is stored, apart from what will be added to it."""
    if stored.shape[1]:
        spine.spilled = Spine(spine.layout, spine.since, Transaction())
        spine.spilled.append(stored)


def region_at(users: int, now: Round, lower: Antichain, *, checks: bool = False) -> Region:
    """Return the innermost of as many regions as there are loops, each in its round.

    All operators have taken what is before the lower frontier; ``checks`` has them look for updates that are beyond
    the upper one.
    """
    schedule = Schedule(users, lambda _: Frontier(lower))
    schedule.checks_frontiers = checks
    region = Region(schedule, None, -1)
    for i in range(len(now)):
        region = Region(schedule, region, 0)
        region.now = now[: i + 1]
    return region
