"""Tasks of window calls, run here: no session is needed to see what they make of a partition."""

import functools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from support.random_windows import cases
from support.running import examples
from support.window_nodes import Nodes, outcome

import tidemill as tm
from tidemill.boundary.results import arrow_table
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Input, Reduce
from tidemill.expressions.windows.bound import Windows

pytest.importorskip("pyspark", reason="needs tidemill[spark]")

from tidemill.renderer.spark import keyed_tasks
from tidemill.renderer.spark.keyed_tasks import KeyedKernel, layout_of
from tidemill.renderer.spark.row_tasks import row_task
from tidemill.renderer.spark.tasks import run_kernel
from tidemill.renderer.spark.window_tasks import WindowsKernel


def both(schema, calls, rows):
    """What windows over rows with counts give, by their own task and by that of any Reduce: rows, or an error."""
    flow, engine = tm.Dataflow(), Nodes()
    flow.output("y", flow.input("x", schema).with_columns(**calls))
    flow.start(engine)
    for node in engine.nodes:
        if not isinstance(node, Reduce) or not isinstance(node.logic, Windows):
            continue
        (source,) = node.inputs
        (given_to,) = source.inputs or (None,)
        if not isinstance(given_to, Input):  # it is given more than rows, or less
            continue
        kernel = KeyedKernel(node, layout_of(node), 1, (), Antichain.minimum(1), Antichain(), time=(0,))
        table = arrow_table(given_to.schema, list(rows))
        columns = [*table.columns, pa.array([0] * len(rows)), pa.array(list(rows.values()))]
        batch = pa.table(columns, [*(f"c{i}" for i in range(table.num_columns)), "t0", "d"]).combine_chunks()
        made = [b.drop_columns(["t0"]) for b in row_task(source, 1)(iter(batch.to_batches()))]
        found = outcome(functools.partial(run_kernel, kernel), made)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(keyed_tasks, "windows_at_one_time", lambda *_, **__: None)
            yield found, outcome(functools.partial(run_kernel, kernel), made)


@examples(40, least=40)
@given(cases())
def test_whole_partitions_through_the_kernel_are_what_a_reduce_makes_of_them(case):
    schema, rows, calls = case
    for found, expected in both(schema, calls, rows):
        assert found == expected


def test_errors_are_those_of_a_reduce():
    schema = {"k": "int64", "t": "int64", "n": "int64"}
    w = tm.Window.partition_by("k").order_by("t")
    buckets = {"a": tm.ntile("n").over(w)}
    for rows, what in (({(1, 1, -3): 1, (2, 1, 1): 1}, "ntile"), ({(1, 1, 1): -1, (2, 1, 1): 1}, "negative")):
        ((found, expected),) = both(schema, buckets, rows)
        assert found == expected
        assert what in found


def test_a_step_loads_new_partitions_of_many_rows_whole():
    """Its reader takes updates as they come from an operator that has partitions loaded: as one matrix."""
    flow, engine = tm.Dataflow(), Nodes()
    x = flow.input("x", {"k": "int64", "n": "int64"})
    flow.output("y", x.with_columns(before=tm.lag("n").over(tm.Window.partition_by("k").order_by("n"))))
    flow.start(engine)
    (node,) = (n for n in engine.nodes if isinstance(n, Reduce))
    count = 300_000
    values = {
        "c0": np.zeros(count, np.int64),
        "c1": np.arange(count),
        "c2": np.arange(count),
        "t0": np.zeros(count, np.int64),
        "d": np.ones(count, np.int64),
    }
    kernel = WindowsKernel(node, Antichain.minimum(1), Antichain())
    columns = {name: values[name] for name in [f.name for f in kernel.given[:-1]]}
    table = pa.table({**columns, "stored": np.zeros(count, np.bool_)})
    made = pa.Table.from_batches(list(run_kernel(kernel, iter(table.to_batches()))))
    assert made.num_rows == count
    assert set(made.column("d").to_pylist()) == {1}
