"""Which ports take blocks as they come, since each is consolidated already."""

import numpy as np

import tidemill as tm
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Arrange, Feedback, Output, Threshold, Variable


def started(build):
    flow = tm.Dataflow()
    build(flow, flow.input("a", {"x": "int64", "y": "int64"}))
    return flow.start()


def ports_of(run, kind):
    return [run.executor.compiled.operators[node].ports[0] for node in run.graph.nodes if isinstance(node, kind)]


def in_a_loop(flow, a):
    longer = a.iterate(lambda p: p.join(a.rename(x="y", y="z"), on="y").select("x", y="z").concat(a).distinct())
    flow.output("o", longer)


def test_in_a_loop():
    """Rows may be there twice only where columns were left out, and in what a join makes."""
    with started(in_a_loop) as run:
        (variable,) = (node for node in run.graph.nodes if isinstance(node, Variable))
        assert run.executor.compiled.operators[variable].consolidated
        assert all(port.consolidated for port in ports_of(run, (Feedback, Output)))
        assert [port.consolidated for port in ports_of(run, Arrange)] == [True, True]
        assert [port.consolidated for port in ports_of(run, Threshold)] == [False]


def test_where_columns_go():
    with started(lambda flow, a: flow.output("o", a.select("x"))) as run:
        assert [port.consolidated for port in ports_of(run, Output)] == [False]


def test_where_columns_change_places():
    with started(lambda flow, a: flow.output("o", a.select(p="y", q="x", r="y"))) as run:
        assert [port.consolidated for port in ports_of(run, Output)] == [True]
        run.update("a", [((1, 2), 0, 1), ((2, 1), 0, 1), ((1, 2), 0, 1)])
        run.advance()
        assert run.snapshot("o").counts() == {(2, 1, 2): 2, (1, 2, 1): 1}


def test_where_one_of_two_is_not():
    with started(lambda flow, a: flow.output("o", a.concat(a.select("x", y="x")))) as run:
        assert [port.consolidated for port in ports_of(run, Output)] == [False]


def test_what_waited_comes_consolidated():
    with started(lambda flow, a: flow.output("o", a)) as run:
        (port,) = ports_of(run, Output)
        assert port.consolidated
        for diff in (1, 1, 2):
            port.defer(np.array([[7], [8], [0], [diff]]))
        port.operator.frontier.upper = Antichain([(1,)])
        port.release()
        assert port.take_consolidated().tolist() == [[7], [8], [0], [4]]
        run.executor.compiled.schedule.transaction.commit()


def test_what_waited_and_came_to_nothing():
    with started(in_a_loop) as run:
        (port,) = ports_of(run, Feedback)
        assert port.consolidated
        for diff in (1, -1):
            port.defer(np.array([[7], [8], [0], [0], [diff]]))
        port.operator.frontier.upper = Antichain([(1,)])
        port.release()
        assert not port.pending
        assert not port.rounds
        run.executor.compiled.schedule.transaction.commit()
