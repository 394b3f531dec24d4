"""Nothing depends on batches, order, steps or compaction; delays commute; entering and leaving is nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import KV, assert_same, examples, new_flow, start

import tidemill as tm
from tidemill.dataflow.lattice import Antichain
from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time, updates

DIMENSIONS = pytest.mark.parametrize("coordinates", [1, 2])


def draws(data, coordinates, **options):
    return {n: data.draw(updates(KV, coordinates, max_size=10, **options), label=n) for n in "ab"}


def hop(a, b):
    return a.join(b, on={"v": "k"}).select("k", v="v_right")


OPERATORS = {
    "select": lambda a, b: a.select("k", v="v + 1").concat(b),
    "distinct": lambda a, b: a.concat(b.negate()).distinct(),
    "join": hop,
    "full join": lambda a, b: a.join(b, on="k", how="full"),
    "aggregates": lambda a, b: a.concat(b).group_by("k").agg(n=tm.count(), s=tm.sum("v"), x=tm.avg("v")),
    "loop": lambda a, b: a.distinct().iterate(lambda here: hop(here, b.distinct()).concat(a).distinct(), error_at=50),
    "limited loop": lambda a, b: a.iterate(lambda here: hop(here, b).concat(a.negate()), return_at=3),
}


@pytest.mark.slow
@pytest.mark.law("Delay by a constant commutes with everything outside the delayed scope.")
@DIMENSIONS
@pytest.mark.parametrize("operator", OPERATORS)
@examples(12)
@given(data=st.data())
def test_delay_by_a_constant_commutes_with_everything(engine, coordinates, operator, data):
    by = 2 if coordinates == 1 else (1, 2)
    apply = OPERATORS[operator]
    build = lambda a, b: [apply(a, b).delay(by), apply(a.delay(by), b.delay(by))]  # noqa: E731
    assert_same(engine, build, draws(data, coordinates), coordinates=coordinates)


@pytest.mark.law("Entering a loop and leaving it is the identity.")
@DIMENSIONS
@given(data=st.data())
def test_entering_and_leaving_is_nothing(engine, coordinates, data):
    def build(a, b):
        twice = a.iterate(lambda here: here.iterate(lambda inner: inner))
        return [a, a.iterate(lambda here: here), twice, b.iterate(lambda _: a), b.iterate(lambda _: a, return_at=1)]

    assert_same(engine, build, draws(data, coordinates), coordinates=coordinates)


@DIMENSIONS
@examples(30)
@given(data=st.data())
def test_delays_add_up(engine, coordinates, data):
    one, two, both = (1, 2, 3) if coordinates == 1 else ((1, 0), (0, 2), (1, 2))
    build = lambda a, b: [a.delay(one).delay(two), a.delay(both), a.delay(two).delay(one)]  # noqa: E731
    assert_same(engine, build, draws(data, coordinates), coordinates=coordinates)


@pytest.mark.slow
@pytest.mark.law(
    "Other batches, another order of arrival, other frontiers, empty steps and compaction at other moments never change the output."
)
@DIMENSIONS
@pytest.mark.parametrize("operator", OPERATORS)
@examples(8)
@given(data=st.data(), seed=st.integers(0, 1000))
def test_batches_order_steps_and_compaction_change_nothing(engine, coordinates, operator, data, seed):
    flow = new_flow(coordinates)
    flow.output("out", OPERATORS[operator](*(flow.input(n, KV) for n in "ab")))
    batchings = [all_at_once, time_by_time, *(shuffled(seed + i) for i in range(4))]
    check_equivalent(flow, draws(data, coordinates), engines=[engine], batchings=batchings)


@pytest.mark.law("Contents at a time that is kept are those of then.")
@DIMENSIONS
@examples(15)
@given(data=st.data())
def test_contents_at_kept_times_are_those_of_then(engine, coordinates, data):
    """What is read at a time, when it has just closed and later, is the same as long as it is kept."""
    flow = new_flow(coordinates)
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("out", a.join(b, on="k", how="left").distinct())
    found = draws(data, coordinates)
    times = sorted({t for triples in found.values() for _, t, _ in triples})
    with start(flow, engine, keep=100) as run:
        for name, triples in found.items():
            run.update(name, triples)
        then = {}
        frontier = Antichain.minimum(coordinates)
        for t in times:
            after = Antichain.after((t,) if coordinates == 1 else t)
            if frontier != frontier.join(after):
                frontier = frontier.join(after)
                run.advance_to(after)
            then[t] = run.snapshot("out", at=t).counts()
        assert {t: run.snapshot("out", at=t).counts() for t in times} == then
