"""What is sent to executors: work on batches, which meet it in the same types whatever the session's settings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from tidemill.expressions.types import dtype
from tidemill.renderer.spark.failures import with_encoded_errors

Batches: TypeAlias = Iterator[pa.RecordBatch]


def done_in_executors(data: DataFrame, task: Callable[[Batches], Batches], schema: Any) -> DataFrame:
    """Return what a task makes of a DataFrame's batches in executors."""
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
