"""What is given to Spark, looked at here: no session is needed."""

import threading

import attrs
import pyarrow as pa
import pytest

import tidemill as tm
from tidemill.boundary.update_tables import Names
from tidemill.dataflow.composites import OrderedDynamicFilter

pytest.importorskip("pyspark", reason="needs tidemill[spark]")

from pyspark import cloudpickle

from tidemill.renderer.spark.dataframes import Given, guarded_inputs
from tidemill.renderer.spark.dynamic_filter import _task
from tidemill.renderer.spark.step import COMPOSITES


@attrs.frozen
class Texts:
    """A DataFrame that tells what is selected of it."""

    selected: tuple[str, ...] = ()

    def selectExpr(self, *texts):  # noqa: N802 - Spark's name
        return Texts(texts)


class Nodes:
    """An engine that shows the nodes that it would run."""

    def start(self, plan, keep):
        del keep
        self.nodes = plan.taking(COMPOSITES).after().nodes


def test_names_in_errors_of_inputs_are_no_variables_of_spark():
    """Spark would put the value of ${env:HOME} there, and quotes in it would end the text."""
    flow = tm.Dataflow()
    flow.output("out", flow.input("${env:HOME}", {"${env:PS1}": "int64"}))
    (node,) = flow.graph.inputs.values()
    one = Given(Texts(), {"c0": "n0", "t0": "0L", "d": "1L"}, [True])
    frame = guarded_inputs({node: one}, Names(("time",), "diff"))[node]
    first, *_ = frame.data.selected
    assert "raise_error" in first
    assert "env:PS1" in first
    assert "${" not in first


def test_a_dynamic_filter_takes_no_functions_of_other_operators_to_executors():
    """One that holds a lock, as a logger or a client does, could not be sent."""
    lock = threading.Lock()

    def look(row, time, diff):
        with lock:
            del row, time, diff

    flow, engine = tm.Dataflow(), Nodes()
    left = flow.input("left", {"v": "list<int64>"}).inspect(look)
    flow.output("out", left.dynamic_filter("v", ">", flow.input("right", {"v": "list<int64>"})))
    flow.start(engine)
    (node,) = [n for n in engine.nodes if isinstance(n, OrderedDynamicFilter)]
    lists = pa.array([[1]], pa.list_(pa.int64()))
    values = pa.table([pa.array([0]), pa.array([9]), lists, pa.array([None], lists.type)], ["0", "1", "2", "3"])
    task = cloudpickle.loads(cloudpickle.dumps(_task(node, values, is_new=True)))
    rows = pa.array([[0], [2], None], lists.type)
    batch = pa.RecordBatch.from_arrays([rows, pa.array([0, 0, 0]), pa.array([1, 1, 1])], names=["c0", "t0", "d"])
    (made,) = task(iter([batch]))
    assert made.to_pylist() == [{"c0": [2], "t0": 0, "d": 1}]
