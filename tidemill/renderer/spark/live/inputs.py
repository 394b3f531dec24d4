"""Spark DataFrames that are put into a run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from tidemill.boundary.update_tables import Names
from tidemill.dataflow.lattice import Time, shown
from tidemill.dataflow.nodes import Input
from tidemill.dataflow.passes.columns import columns_read
from tidemill.errors import EngineError
from tidemill.renderer.durable.spilled import SpillFolder
from tidemill.renderer.durable.start import State
from tidemill.renderer.runs.intake import (
    checked_change,
    checked_feed,
    checked_updates,
    feed_of,
    require_no_key,
    require_order,
)
from tidemill.renderer.runs.intake import open_times as checked_times
from tidemill.renderer.runs.writes import Change, Queued
from tidemill.renderer.spark.live.incoming import collected_if_few, refuse_ambiguous_keys, written_to_files
from tidemill.renderer.spark.live.mixed_changes import Mixed, feed_in_files, updates_in_files
from tidemill.renderer.spark.live.state_files import remove_files
from tidemill.renderer.spark.retries import translated_errors
from tidemill.renderer.spark.session import check_session, is_connected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkDataFrames:
    """See `DataFrames`. Those of few rows are collected; of large ones what is read is written to files."""

    def __init__(self, spark: SparkSession, state: State, in_driver: int) -> None:
        self._spark = spark
        self._graph = state.executor.graph
        self._frontiers = state.frontiers
        self._spill_store = state.spill_store
        self._in_driver = in_driver

    def reads(self, rows: Any) -> bool:
        return hasattr(rows, "localCheckpoint")

    def read(self, node: Input, rows: Any, time: Time, sign: int) -> Change:
        if not rows.columns:  # nothing but how many there are
            count = rows.count()
            return checked_updates(node, self._frontiers, [((), shown(time), sign * count)], Names((), ""))
        table = collected_if_few(rows, self._in_driver)
        if table is not None:
            return checked_change(node, self._frontiers, table, time, sign)
        return self._read_large(node, rows, time, sign)

    def _read_large(self, node: Input, rows: Any, time: Time, sign: int) -> Change:
        """Return a DataFrame of many rows in files, and in memory after all where it is not that many."""
        check_session(self._spark, files=True)
        if node.key:
            require_order(node, self._frontiers)
        store = self._spill_store.store
        with translated_errors(self._graph):
            change = written_to_files(store, node, rows, time, sign, self._columns_read(node, sign))
        if change is None:
            return Queued([], time, sign)
        if change.rows > self._in_driver:
            if node.key and sign > 0:
                with translated_errors(self._graph):
                    refuse_ambiguous_keys(self._spark, store, change)
            return change
        found = change.writes(store.folder) if node.key else change.queued(store.folder)
        remove_files(store, change.files)
        return found

    def updates(self, node: Input, rows: Any, named: Names) -> Sequence[Change]:
        require_no_key(node)
        named.check(node.schema, node.where)
        table = collected_if_few(rows, self._in_driver) if len(node.schema) else rows.toArrow()
        if table is not None:
            return [checked_updates(node, self._frontiers, table, named)]
        read = sorted(self._columns_read(node, 1)) or [0]
        return self._mixed(node, lambda store: updates_in_files(self._spark, store, node, rows, named=named, read=read))

    def feed(self, node: Input, rows: Any, op: str, time: Any) -> Sequence[Change]:
        table = collected_if_few(rows, self._in_driver)
        if table is not None:
            return [checked_feed(node, self._frontiers, table, op, time)]
        feed, at = feed_of(node, self._frontiers, op, time)
        feed.check(node.where)
        require_order(node, self._frontiers)
        return self._mixed(node, lambda store: feed_in_files(self._spark, store, node, rows, feed=feed, time=at))

    def _mixed(self, node: Input, write: Callable[[SpillFolder], Mixed]) -> Sequence[Change]:
        """Return a DataFrame of many rows in files, and in memory after all where it is not that many."""
        check_session(self._spark)
        open_times = functools.partial(checked_times, node, self._frontiers)
        with translated_errors(self._graph):
            mixed = write(self._spill_store.store)
        try:
            if mixed.rows <= self._in_driver:
                return [mixed.in_memory(open_times)] if mixed.rows else []
            with translated_errors(self._graph):
                return mixed.apart(open_times)
        finally:
            mixed.remove()

    def _columns_read(self, node: Input, sign: int) -> Collection[int]:
        """Return which columns of an input are to be kept of what comes."""
        if node.key and sign < 0:
            return node.key
        return range(len(node.schema)) if node.unique or node.key else columns_read(self._graph, node)

    def require_streams(self) -> None:
        if is_connected(self._spark):
            msg = (
                "foreach_batch: Spark Connect calls the function in a process of its server, where this run is not: "
                "use a session that is not remote, or number what comes and run.deliver(source, number, put)"
            )
            raise EngineError(msg)
