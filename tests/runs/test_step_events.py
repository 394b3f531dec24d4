"""The log of step events: what operators did in each step, at which times, and what that adds up to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import KV, examples, new_flow, start

import tidemill as tm
from tidemill.dataflow.nodes import Output, Threshold
from tidemill.testing import updates


def reachability(coordinates=1):
    flow = new_flow(coordinates)
    edges, begin = flow.input("edges", KV), flow.input("start", {"k": "int64"})
    flow.output("reached", begin.iterate(
        lambda here: here.join(edges, on="k").select(k="v").concat(begin).distinct()
    ))  # fmt: skip
    flow.output("degrees", edges.group_by("k").agg(n=tm.count()))
    return flow


def only(run, kind):
    (found,) = (node for node in run.graph.nodes if isinstance(node, kind))
    return found


def test_a_step_says_who_worked_in_which_rounds_at_which_times(engine):
    with start(reachability(), engine) as run:
        run.log_events()
        run.insert("edges", [(1, 2), (2, 3), (3, 1)])
        run.insert("start", [(1,)])
        run.advance()
        run.insert("edges", [(3, 4)])
        run.advance()
        first, second = run.events
        distinct = only(run, Threshold).id
        assert first.operators[distinct].times == {(0, 0): 2, (0, 1): 1}
        assert first.operators[distinct].rounds >= 2
        assert second.operators[distinct].times == {(1, 2): 1}
        assert second.operators[distinct].rounds >= 1
        assert (first.info.number, second.info.number) == (1, 2)
        assert second.info.frontiers["reached"] == tm.Antichain([2])
        assert set(second.frontiers.values()) == {tm.Antichain([2])}
        assert set(second.frontiers) == {node.id for node in run.graph.nodes}


def test_a_step_that_is_not_on_record_is_an_index_error_that_says_how_many_there_are():
    with reachability().start() as run:
        run.log_events(5)
        run.advance()
        with pytest.raises(
            IndexError, match=r"events\[99\]: the last steps are on record, at most 5, now 1: expected less"
        ):
            run.events[99]
        assert [event.info.number for event in run.events] == [1]  # so a loop over them ends


def test_more_steps_than_a_log_can_have_are_refused():
    with reachability().start() as run, pytest.raises(tm.errors.TimeError, match=r"for all of them, limit=1000000000"):
        run.log_events(10**30)


def test_the_first_updates_of_each_operator_are_kept_as_many_as_are_asked_for(engine):
    with start(reachability(), engine) as run:
        run.log_events(rows=2)
        run.insert("edges", [(1, 2), (2, 3), (3, 1)])
        run.insert("start", [(1,)])
        run.advance()
        (event,) = run.events
        distinct = event.operators[only(run, Threshold).id]
        assert len(distinct.rows) == 2
        assert set(distinct.rows) < {((1,), (0, 0), 1), ((2,), (0, 0), 1), ((3,), (0, 1), 1)}
        assert max(len(work.rows) for work in event.operators.values()) == 2
        run.log_events(rows=0)
        run.insert("edges", [(3, 4)])
        run.advance()
        assert {work.rows for work in run.events[0].operators.values()} == {()}


@pytest.mark.parametrize("rows", [-1, True, "x"])
def test_a_number_of_updates_that_is_none_is_refused(rows):
    with reachability().start() as run, pytest.raises(tm.errors.TimeError, match="expected a number of updates"):
        run.log_events(rows=rows)


def test_operators_without_work_are_left_out():
    with reachability().start() as run:
        run.insert("edges", [(1, 2)])
        run.advance()
        run.log_events()
        run.insert("start", [(7,)])
        run.advance()
        (event,) = run.events
        worked = {run.graph.nodes[i].name for i in event.operators if isinstance(run.graph.nodes[i], Output)}
        assert worked == {"reached"}


def test_inputs_apart_show_who_holds_an_output_back(engine):
    with start(reachability(), engine) as run:
        run.log_events()
        run.advance_to(5, input="edges")
        event = run.events[-1]
        frontiers = {run.graph.nodes[i].name: f for i, f in event.frontiers.items()}
        assert frontiers["edges"] == frontiers["degrees"] == tm.Antichain([5])
        assert frontiers["start"] == frontiers["reached"] == tm.Antichain([0])


@pytest.mark.parametrize("coordinates", [1, 2])
def test_metrics_are_the_sums_of_the_events(engine, coordinates):
    @examples(15)
    @given(
        updates(KV, coordinates, non_negative=True),
        updates({"k": "int64"}, coordinates, non_negative=True),
        st.integers(1, 4),
    )
    def check(edges, begin, steps):
        with start(reachability(coordinates), engine) as run:
            before = run.metrics()
            run.log_events(1000)
            run.update("edges", edges)
            run.update("start", begin)
            for step in range(1, steps):
                run.advance_to(step if coordinates == 1 else (step,) * coordinates)
            run.close_inputs()
            for old, new in zip(before, run.metrics(), strict=True):
                works = [event.operators[new.id] for event in run.events if new.id in event.operators]
                assert sum(w.records_in for w in works) == new.records_in - old.records_in
                assert sum(w.records_out for w in works) == new.records_out - old.records_out
                assert sum(sum(w.times.values()) for w in works) == new.records_out - old.records_out
                assert sum(w.seconds for w in works) <= new.seconds - old.seconds + 1e-9
                if new.id in run.events[-1].operators:  # what it holds may go later, when nobody can ask about it
                    assert (works[-1].state_rows, works[-1].waiting) == (new.state_rows, new.waiting)

    check()


def test_a_refused_step_leaves_no_event(engine):
    flow = new_flow()
    flow.output("x", flow.input("x", KV).select(q="k / v"))
    with start(flow, engine) as run:
        run.log_events()
        run.insert("x", [(1, 0), (4, 2)])
        with pytest.raises(tm.errors.ExpressionError):
            run.advance()
        assert list(run.events) == []
        run.delete("x", [(1, 0)])
        run.advance()
        (event,) = run.events
        assert event.operators[only(run, Output).id].times == {(0,): 1}
        for work in event.operators.values():
            assert work.records_out == sum(work.times.values())


def test_the_log_is_bounded_and_ends():
    flow = new_flow()
    flow.output("x", flow.input("x", KV))
    with flow.start() as run:
        run.log_events(3)
        for i in range(5):
            run.insert("x", [(i, i)])
            run.advance()
        assert [e.info.number for e in run.events] == [e.info.number for e in run.events[0:]] == [3, 4, 5]
        assert (len(run.events), run.events.limit) == (3, 3)
        assert repr(run.events) == "StepEvents(steps 3 to 5, limit=3)"
        assert run.events[-1].info.number == 5
        run.log_events(0)
        with pytest.raises(tm.errors.EngineError, match="begin with run.log_events"):
            _ = run.events
        run.advance()


@pytest.mark.parametrize("limit", [-1, True, 2.5, "many"])
def test_a_limit_that_is_none(limit):
    flow = new_flow()
    flow.output("x", flow.input("x", KV))
    with flow.start() as run, pytest.raises(tm.errors.TimeError, match="expected a number of steps"):
        run.log_events(limit)


def test_without_a_log_nothing_is_noted():
    with reachability().start() as run:
        run.insert("start", [(1,)])
        run.advance()
        assert run.executor.take_traces() == {}


def test_the_log_is_sliced_as_other_sequences_are():
    flow = new_flow(1)
    flow.output("x", flow.input("x", {"i": "int64"}))
    with start(flow, tm.Embedded()) as run:
        run.log_events()
        for i in range(4):
            run.insert("x", [(i,)])
            run.advance()
        numbers = [event.info.number for event in run.events]
        for part in (slice(None, None, -1), slice(3, 0, -2), slice(-2, None), slice(1, 9), slice(None, None, 2)):
            assert [event.info.number for event in run.events[part]] == numbers[part]
