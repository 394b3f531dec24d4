"""Users' functions that cannot go to executors, or end them: which it is, on the user's line, and what is to be done.

The kind: errors that Spark raises of a function before or beside its run, so that they name nothing of the user's.
"""

import os
import pickle
import sys
import threading

import pytest
from support.running import KV, new_flow

import tidemill as tm
from tidemill.errors import EngineError, UserFunctionError

pytest.importorskip("pyspark", reason="needs tidemill[spark]")

from tidemill.renderer.spark.sent_functions import error_of_function

LOCK = threading.Lock()


class Unmade:
    """What is pickled and cannot be made again."""

    def __reduce__(self):
        return (int, ("x",))

    def __call__(self, row):
        return (row.k, row.v)


def holding(lock):
    """A function that is not of a module which executors have: what it refers to goes with it."""

    def locked(row):
        with lock:
            return (row.k, row.v)

    return locked


def same(row):
    return (row.k, row.v)


def killed(row):
    os._exit(row.v)


def rendered(spark, build):
    flow = new_flow()
    flow.output("out", build(flow.input("a", KV)))
    return tm.render(flow, spark, {"a": spark.sql("SELECT 1L AS k, 2L AS v")}, in_driver=0)["out"].collect()


FAILING = {
    "unpicklable": (
        lambda a: a.map_rows(same, KV).map_rows(holding(LOCK), KV),
        (r"map_rows \(.*test_sent_functions.py:\d+\): the function '.*locked' cannot be sent to Spark's executors.* of 'lock' "
        r"\(TypeError: cannot pickle '_thread.lock' object\). .*make what is of one process alone, .* within"),
    ),
    "unpicklable reduce": (
        lambda a: a.group_by("k").reduce(lambda key, rows: [(LOCK, 1)], KV),
        r"Reduce 'reduce' \(.*test_sent_functions.py:\d+\): the function '.*lambda>' cannot be sent .* because of 'LOCK'",
    ),
    "not made again": (
        lambda a: a.map_rows(same, KV).map_rows(Unmade(), KV),
        r"map_rows \(.*\): the function 'Unmade' cannot be made in the executors' Python \(ValueError: invalid literal",
    ),
    "exits": (
        lambda a: a.map_rows(lambda row: sys.exit(3), KV),
        r"map_rows \(.*\): the function '.*lambda>' ended the executors' Python \(SystemExit: 3\)",
    ),
    "dies": (
        lambda a: a.map_rows(same, KV).group_by("k").reduce(lambda key, rows: os._exit(7), KV),
        (r"the function 'same'; Reduce 'reduce' \(.*\): the function '.*lambda>': one of these ended the executors' Python "
        r"\(Python worker exited unexpectedly \(crashed\)\). It called os._exit .*spark.executor.memory"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILING)
def test_which_function_it_is(spark, case):
    build, message = FAILING[case]
    with pytest.raises(UserFunctionError, match=message) as caught:
        rendered(spark, build)
    assert caught.value.__cause__ is not None
    assert (caught.value.site is not None) == (case != "dies")


def test_a_run_goes_on_after_it(spark):
    flow = new_flow()
    flow.output("out", flow.input("a", KV).filter("v > 2").map_rows(killed, KV))
    with flow.start(tm.Spark(spark, in_driver=2)) as run:
        run.insert("a", spark.range(4).selectExpr("id AS k", "id AS v"))
        with pytest.raises(UserFunctionError, match=r"the function 'killed' ended the executors' Python") as caught:
            run.advance()
        assert caught.value.operator.startswith("map_rows")
        assert run.frontier("out") == tm.Antichain([0])
        run.discard()
        run.insert("a", spark.range(3).selectExpr("id AS k", "id AS v"))
        run.advance()
        assert list(run.snapshot("out")) == []


def test_what_is_of_no_function():
    flow = new_flow()
    flow.output("out", flow.input("a", KV).distinct())
    told = error_of_function(flow.graph, RuntimeError("Python worker exited unexpectedly (crashed)."))
    assert isinstance(told, EngineError)
    assert "tidemill's kernels: one ended the executors' Python" in str(told)
    assert error_of_function(flow.graph, pickle.PicklingError("what")) is None
    assert error_of_function(flow.graph, RuntimeError("what")) is None
