"""The checker itself: it says what differs in the smallest place, and it finds what is planted."""

import re

import attrs
import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st
from support.running import KV, new_flow

import tidemill as tm
from tidemill.dataflow import composites, nodes
from tidemill.dataflow.lattice import join_closure
from tidemill.dataflow.passes.lowering import lower
from tidemill.expressions.schema import Schema
from tidemill.renderer.reference import Reference
from tidemill.renderer.reference.executor import ReferenceExecutor
from tidemill.renderer.reference.rules import RULES
from tidemill.renderer.reference.traces import at_every_time, by_key, consolidated, triples
from tidemill.renderer.runs.frontiers import Frontiers
from tidemill.renderer.runs.run import Run
from tidemill.renderer.runs.stepper import Stepper
from tidemill.testing import all_at_once, check_equivalent, dataflows, shuffled, time_by_time, updates

ERROR = tm.errors.ExpressionError("boom", "x")
OTHER_ERROR = tm.errors.UserFunctionError("boom")


@attrs.frozen
class Broken:
    """The reference engine with one operator replaced."""

    def start(self, plan, keep):
        return Reference().start(plan, keep)


@pytest.fixture
def broken(monkeypatch):
    """A way to replace an operator's rule in the engine ``Broken`` alone."""

    def install(kind, rule):
        right = RULES._found[kind]

        class BrokenExecutor(ReferenceExecutor):
            def step(self, *args):
                RULES(kind)(lambda node, final, *sources: consolidated(rule(node, final, *sources)))
                try:
                    super().step(*args)
                finally:
                    RULES(kind)(right)

        def start(_self, plan, keep):
            graph = plan.taking(RULES.composites).without_passes()
            frontiers = Frontiers(graph, keep)
            return Run(Stepper(BrokenExecutor(graph, frontiers.progress), frontiers))

        monkeypatch.setattr(Broken, "start", start)
        return Broken()

    return install


def counts():
    flow = new_flow()
    a = flow.input("a", KV)
    flow.output("n", a.distinct())
    flow.output("a", a)
    return flow


def one_for_any(node, final, source):
    """Distinct, as some have it: 1 for any count that is not 0."""
    for row, group in by_key(source, (0, 1)).items():
        yield from triples(at_every_time(lambda rows, row=row: {row: 1} if rows else {}, group, final=final))


def only_at_input_times(node, final, source):
    """Distinct that forgets the joins of times."""
    for row, group in by_key(source, (0, 1)).items():
        whole = at_every_time(lambda rows, row=row: {row: 1} if rows.get(row, 0) > 0 else {}, group, final=final)
        yield from (u for u in triples(whole) if u[1] in {t for _, t in group})


def test_the_smallest_disagreement_is_shown(broken):
    engine = broken(nodes.Threshold, one_for_any)
    found = [((5, 5), 3, -1), ((2, 2), 1, -2), ((1, 1), 0, 1)]
    text = "output 'n', row (2, 2) at time 1: +0 by (reference, all at once), +1 by (Broken, all at once); and 1 more"
    with pytest.raises(AssertionError, match=re.escape(text)):
        check_equivalent(counts(), {"a": found}, engines=["reference", engine])


def test_what_is_equal_passes(engines):
    check_equivalent(counts(), {"a": [((5, 5), 3, 1), ((2, 2), 1, -2)]}, engines=engines)
    check_equivalent(counts(), {}, engines=engines)


def test_errors_must_agree(broken):
    def fails(node, final, source):
        raise ERROR

    engine = broken(nodes.Threshold, fails)
    text = "(Broken, all at once) cannot take a step, (reference, all at once) can: ExpressionError: boom in `x`"
    with pytest.raises(AssertionError, match=re.escape(text)):
        check_equivalent(counts(), {"a": [((1, 1), 0, 1)]}, engines=["reference", engine])


def test_batchings_that_no_engine_takes_are_passed_over():
    """An engine of whole histories is not asked to be given them piece by piece."""

    class Whole(Broken):
        whole_histories = True

    check_equivalent(counts(), {"a": [((1, 1), t, 1) for t in (0, 2)]}, engines=[Whole()], batchings=[time_by_time])


def test_errors_that_agree_are_no_difference(engines):
    flow = new_flow()
    flow.output("q", flow.input("a", KV).select(q="k DIV v"))
    check_equivalent(flow, {"a": [((1, 0), 2, 1), ((1, 1), 0, 1)]}, engines=engines)


def test_the_kind_of_error_is_compared(broken):
    def fails(node, final, *sources):
        raise OTHER_ERROR

    flow = new_flow()
    flow.output("q", flow.input("a", KV).select(q="k DIV v"))
    engine = broken(nodes.Map, fails)
    with pytest.raises(AssertionError, match="raises ExpressionError: .* but .* UserFunctionError: boom"):
        check_equivalent(flow, {"a": [((1, 0), 0, 1)]}, engines=["reference", engine])


def test_what_is_wrong_with_the_call_is_said():
    with pytest.raises(tm.errors.UnknownNameError, match="no input 'b'"):
        check_equivalent(counts(), {"b": []}, engines=["reference"])
    with pytest.raises(tm.errors.UnknownNameError, match="no engine 'referense': did you mean 'reference'"):
        check_equivalent(counts(), {}, engines=["referense"])
    with pytest.raises(tm.errors.RowError, match="has 1 values"):
        check_equivalent(counts(), {"a": [((1,), 0, 1)]}, engines=["reference"])


FIND = settings(
    max_examples=2000, derandomize=True, database=None, suppress_health_check=list(HealthCheck), deadline=None
)


def disagrees(engine, coordinates):
    def check(found):
        flow = new_flow(coordinates)
        flow.output("n", flow.input("a", KV).distinct())
        try:
            check_equivalent(flow, {"a": found}, engines=["reference", engine], batchings=[all_at_once])
        except AssertionError:
            return True
        return False

    return check


def test_a_planted_bug_is_found_and_shrinks(broken):
    found = find(updates(KV), disagrees(broken(nodes.Threshold, one_for_any), 1), settings=FIND)
    assert found == [((0, 0), 0, -1)]


@pytest.mark.slow
def test_a_bug_of_partially_ordered_times_is_found_and_shrinks(broken):
    """A few updates of one row, two of them at incomparable times: the join of them was forgotten."""
    found = find(updates(KV, 2), disagrees(broken(nodes.Threshold, only_at_input_times), 2), settings=FIND)
    assert len(found) <= 6  # a shrinker gives up at some time; two would do
    times = {t for _, t, _ in found}
    assert len(join_closure(times)) > len(times)


# Strategies.


@given(data=st.data(), coordinates=st.integers(1, 3))
def test_updates_are_of_the_schema(data, coordinates):
    schema = Schema.of({"i": "int32", "f": "float64 not null", "d": "decimal(4,2)", "t": "timestamp", "r": "binary"})
    found = data.draw(updates(schema, coordinates, latest=2))
    flow = new_flow(coordinates)
    flow.output("a", flow.input("a", schema))
    with flow.start(tm.Reference()) as run:
        run.update("a", found)
    assert all(row[1] is not None and diff for row, _, diff in found)


@given(found=updates(KV, 2, non_negative=True))
def test_non_negative_updates_have_no_negative_count_at_any_time(found):
    for time in join_closure(t for _, t, _ in found):
        seen = [(row, diff) for row, t, diff in found if t[0] <= time[0] and t[1] <= time[1]]
        assert all(sum(d for r, d in seen if r == row) >= 0 for row, _ in seen)


@pytest.mark.slow
def test_updates_meet_cancel_and_come_in_any_order():
    for wish in (
        lambda found: len({row for row, _, _ in found}) < len(found),
        lambda found: any((row, t, -d) in found for row, t, d in found),
        lambda found: [t for _, t, _ in found] != sorted(t for _, t, _ in found),
        lambda found: any(None in row for row, _, _ in found),
    ):
        assert find(updates(KV), wish, settings=FIND)
    nans = find(updates({"f": "float64"}), lambda found: any(row[0] != row[0] for row, _, _ in found), settings=FIND)
    assert len(nans) == 1


@pytest.mark.slow
def test_dataflows_have_all_operators():
    kinds = set()

    @settings(max_examples=400, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(dataflows(2))
    def collect(case):
        for graph in (case.flow.graph, lower(case.flow.graph)):
            kinds.update(node.kind for node in graph.nodes)
        assert "updates" not in repr(case)
        assert case.flow.graph.outputs

    collect()
    abstract = {"ComparingFilter", "Composite", "Node", "PartneredJoin"}
    classes = [c for m in (nodes, composites) for c in vars(m).values() if isinstance(c, type)]
    kinds_there_are = {c.__name__ for c in classes if issubclass(c, nodes.Node)}
    of_one_time = {"ClosedSessions", "LateRows", "Mark", "SlidingWindows", "SortBuffer", "Watermark"}  # test_watermarks
    of_one_time |= {"OrderedDynamicFilter", "RangeJoin"}  # test_dynamic_filters, test_range_joins; dataflows(1)
    assert kinds == kinds_there_are - abstract - of_one_time


def test_batchings_feed_everything_before_it_is_closed():
    flow = new_flow()
    flow.output("a", flow.input("a", KV))
    found = [((i, 0), i % 4, 1) for i in range(12)]
    for seed in range(20):
        check_equivalent(flow, {"a": found}, engines=["reference"], batchings=[time_by_time, shuffled(seed)])
