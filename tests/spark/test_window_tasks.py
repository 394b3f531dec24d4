"""Tasks of window calls, run here: no session is needed to see what they make of a partition."""

import pyarrow as pa
import pytest
from hypothesis import given
from random_windows import cases
from running import examples
from window_nodes import Nodes, outcome

import tidemill as tm
from tidemill.boundary.results import arrow_table
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Input, Reduce
from tidemill.expressions.windows.bound import Windows

pytest.importorskip("pyspark", reason="needs tidemill[spark]")

from tidemill.renderer.spark.keyed_tasks import KeyedTask, KeyedTaskAtOneTime, layout_of
from tidemill.renderer.spark.row_tasks import row_task
from tidemill.renderer.spark.window_tasks import WindowsAtOneTime


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
        ends = {"lower": Antichain.minimum(1), "upper": Antichain()}
        whole = {"keeps_state": False, "summed": False, "users": 1, "now": ()}
        general = KeyedTaskAtOneTime(KeyedTask.of(node, layout=layout_of(node), **whole, **ends), (0,))
        table = arrow_table(given_to.schema, list(rows))
        columns = [*table.columns, pa.array([0] * len(rows)), pa.array(list(rows.values()))]
        batch = pa.table(columns, [*(f"c{i}" for i in range(table.num_columns)), "t0", "d"]).combine_chunks()
        made = [b.drop_columns(["t0"]) for b in row_task(source, 1)(iter(batch.to_batches()))]
        yield [outcome(task, made) for task in (WindowsAtOneTime(general), general)]


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
