"""What waits for a later step: against a list of updates, and how much of it is looked at."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import KV, examples, new_flow, start

import tidemill as tm
from tidemill.dataflow.lattice import Antichain, join_closure, lub
from tidemill.renderer.embedded.operators.keyed import KeyedOperator, next_rounds
from tidemill.renderer.embedded.schedule import Port
from tidemill.renderer.embedded.trace import pending as waiting_module
from tidemill.renderer.embedded.trace import time_buckets
from tidemill.renderer.embedded.trace.pending import PendingUpdates
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.testing import check_equivalent, shuffled, time_by_time, updates


@pytest.fixture
def small(monkeypatch):
    """Buckets for a few updates, so that a few go through all that thousands would."""
    monkeypatch.setattr(waiting_module, "FEW", 2)
    monkeypatch.setattr(time_buckets, "BITS", 1)
    monkeypatch.setattr(time_buckets, "_THRESHOLDS", 1 << np.arange(1, 63))


@pytest.mark.slow
@pytest.mark.parametrize("weights", [0, 1])
@pytest.mark.parametrize("users", [1, 2, 3])
def test_what_is_due_comes_out_and_the_rest_stays(small, users, weights):
    times = st.tuples(*[st.integers(0, 7)] * users)
    found = st.lists(st.tuples(st.integers(0, 2), times, st.sampled_from([-1, 1])), min_size=1, max_size=12)
    steps = st.lists(st.tuples(found, st.lists(times, max_size=3), st.booleans()), max_size=8)

    def summed(blocks):
        counts = Counter()
        for block in blocks:
            for column in block.T.tolist():
                counts[tuple(column[: 1 + users])] += column[-1] if weights else 1
        return {u: n for u, n in counts.items() if n} if weights else set(counts)

    @examples(80)
    @given(steps)
    def check(script):
        held, upper, model = PendingUpdates(1, users, weights), Antichain.minimum(users), []
        for new, frontier, taken in script:
            moved = upper.join(Antichain(frontier)) if frontier else upper
            columns = [(k, *t, d)[: 1 + users + weights] for k, t, d in new if moved.beyond(t) or upper.beyond(t)]
            if columns:
                block = np.array(columns, np.int64).T
                held.add(block)
                model.append(block)
            state = held.state
            due = held.take_due(moved)
            whole = np.concatenate(model, axis=1) if model else np.empty((1 + users + weights, 0), np.int64)
            late = np.array([moved.beyond(tuple(c[1 : 1 + users])) for c in whole.T.tolist()], np.bool_)
            assert summed([] if due is None else [due]) == summed([whole[:, ~late]])
            if taken:
                upper, model = moved, [whole[:, late]]
            else:
                held.state = state
            assert summed(held.arrays()) == summed(model)
            assert bool(held) == bool(held.arrays())

    check()


@pytest.mark.parametrize("users", [1, 2])
def test_what_is_not_due_is_not_looked_at(users):
    held = PendingUpdates(1, users, 1)
    for i in range(3000):  # one at a time, as epochs of one row bring them
        held.add(np.array([[i], *[[5000 + i * 7919 % 3001]] * users, [1]]))
        assert held.take_due(Antichain([(i,) * users])) is None
    assert held.size == 3000
    assert len(held.arrays()) < 40  # and not a block for each
    before = held.compared
    for i in range(1000):
        assert held.take_due(Antichain([(3000 + i,) * users])) is None
    assert held.compared == before


@pytest.mark.parametrize("users", [1, 2])
def test_a_step_looks_at_about_what_is_due(users):
    held, n = PendingUpdates(1, users, 1), 20_000
    held.add(np.array([np.arange(n), *[np.arange(n)] * users, np.ones(n, np.int64)]))
    held.take_due(Antichain([(0,) * users]))
    before = held.compared
    for i in range(1, 1001):
        due = held.take_due(Antichain([(i,) * users]))
        assert due is not None
        assert due[0].tolist() == [i - 1]
    assert held.compared - before < 1000 * 2 * waiting_module.FEW  # of twenty million


@pytest.mark.parametrize("users", [1, 2, 3])
def test_an_update_is_moved_a_few_times_until_it_is_due(users):
    held, n = PendingUpdates(1, users, 1), 30_000
    times = np.random.default_rng(0).integers(1, 5000, (users, n))
    held.add(np.concatenate((np.arange(n)[None], times, np.ones((1, n), np.int64))))
    came = 0
    for i in range(0, 5001, 5):
        due = held.take_due(Antichain([(i,) * users]))
        came += 0 if due is None else due.shape[1]
    assert came == n
    assert held.compared < n * 12 * users  # and not some five hundred times


@pytest.mark.parametrize("users", [1, 2])
def test_what_cancels_out_meets_before_it_is_due(users):
    """Brought by ten thousand epochs, and taken back by as many, all of it at times far away."""
    held, n = PendingUpdates(1, users, 1), 10_000
    times = 100_000 + np.random.default_rng(0).integers(0, 100_000, n)
    for diff in (1, -1):
        for i in range(0, n, 10):
            block = np.stack([np.arange(i, i + 10), *[times[i : i + 10]] * users, np.full(10, diff)])
            held.add(block)
            assert held.take_due(Antichain([(i + (n if diff < 0 else 0),) * users])) is None
    assert held.size < n


def test_what_is_near_does_not_touch_what_is_far():
    """A million later ones lie where they are, however many come and go before them."""
    held, n = PendingUpdates(1, 1, 1), 1_000_000
    held.add(np.array([np.arange(n), 2**30 + np.arange(n), np.ones(n, np.int64)]))
    held.take_due(Antichain([0]))
    far = {id(array) for array in held.arrays()}
    before = held.compared
    for i in range(2000):
        held.add(np.array([np.arange(10), i + 1 + np.arange(10) * 9, np.ones(10, np.int64)]))
        held.take_due(Antichain([i]))
    assert far <= {id(array) for array in held.arrays()}
    assert held.compared - before < 2000 * 4 * waiting_module.FEW


def test_memory_of_what_has_gone_is_given_up():
    held, n = PendingUpdates(0, 1, 1), 10_000
    held.add(np.array([np.arange(n), np.ones(n, np.int64)]))
    held.take_due(Antichain([(n - 300,)]))
    bases = {id(block.base): block.base for block in held.arrays() if block.base is not None}
    assert sum(base.size for base in bases.values()) < 2 * 2 * 1000


def test_a_steps_work_does_not_grow_with_what_waits():
    flow = new_flow()
    flow.output("o", flow.input("a", KV).delay(lambda t: t + 1000 + t * 7919 % 500).count("n"))
    run = flow.start()
    waiting = [p.pending for o in run.executor.compiled.operators.values() for p in o.ports]
    for i in range(500):
        run.insert("a", [(i, i)])
        run.advance()
    before = sum(w.compared for w in waiting)
    for i in range(100):
        run.insert("a", [(i, i)])
        run.advance()
    assert sum(o.waiting for o in run.metrics()) == 600
    assert sum(w.compared for w in waiting) - before < 100 * 20


@pytest.mark.parametrize("coordinates", [1, 2])
def test_what_waits_is_saved_and_survives_a_discard(small, tmp_path, coordinates):
    flow = new_flow(coordinates)
    axis = flow.graph.coordinates[0]
    flow.output("valid", flow.input("a", KV).temporal_filter("k", "v", coordinate=axis))
    time = (lambda t: t) if coordinates == 1 else lambda t: (t, 0)
    rows = [(i, i + 1 + i * 7 % 40) for i in range(200)]
    with flow.start(tm.Embedded(tmp_path), keep=0) as run:
        run.insert("a", rows, time=time(0))
        run.advance_to(time(3))
        waiting = sum(o.waiting for o in run.metrics())
        assert waiting > 300
        run.insert("a", [(0, 300)], time=time(5))
        run.discard()
        run.update("a", [((9, 2), time(4), 1)])
        with pytest.raises(tm.errors.ExpressionError, match="valid_to 2 is before valid_from 9"):
            run.advance_to(time(6))
        run.discard()
        assert sum(o.waiting for o in run.metrics()) == waiting
    with flow.start(tm.Embedded(tmp_path), keep=0) as again:
        assert sum(o.waiting for o in again.metrics()) == waiting
        for now in range(4, 250, 6):
            again.advance_to(time(now + 1))
            valid = again.snapshot("valid") if coordinates == 1 else again.snapshot("valid", at=time(now))
            assert list(valid) == [(k, v) for k, v in rows if k <= now < v]


def test_a_step_that_fails_leaves_waiting_what_waited():
    flow = new_flow()
    flow.output("o", flow.input("a", KV).delay(lambda t: t + 3).select(q="10 DIV v"))
    run = flow.start()
    run.insert("a", [(1, 0), (1, 5)])
    run.advance()
    for _ in range(2):
        with pytest.raises(tm.errors.ExpressionError):
            run.advance_to(4)
    assert sum(o.waiting for o in run.metrics()) == 2


# -- joins whose inputs are apart ------------------------------------------------------------------------------------


def apart(coordinates=1):
    """Joins of inputs that outputs show on their own as well, so that one can be ahead of the other."""
    flow = new_flow(coordinates)
    a, b = flow.input("a", KV), flow.input("b", KV)
    for name, collection in (("a", a), ("b", b), ("reduced", a.group_by("k").agg(v=tm.max("v")))):
        flow.output(name, collection)
    flow.output("joined", a.join(b, on="k"))
    flow.output("loop", b.iterate(lambda c: c.join(a, on={"v": "k"}).select("k", v="v_right").concat(b).distinct()))
    return flow


def one_binding_ahead(coordinates=1):
    """Two bindings of which one depends on one input alone, and is read outside: so it can be ahead of the other."""
    flow = new_flow(coordinates)
    a, b = flow.input("a", KV), flow.input("b", KV)
    with flow.letrec(return_at=3) as rec:
        p, q = rec.declare("p", KV), rec.declare("q", KV)
        rec.define("p", a.join(q, on={"v": "k"}).select("k", v="v_right % 5").concat(a, p.filter("k < v")).distinct())
        rec.define("q", q.join(b, on={"v": "k"}).select("k", v="(v + v_right) % 5").concat(b).distinct())
    flow.output("p", rec["p"])
    flow.output("q", rec["q"])
    return flow


@pytest.mark.slow
@pytest.mark.parametrize("build", [apart, one_binding_ahead])
@pytest.mark.parametrize("coordinates", [1, 2, 3])
def test_joins_of_inputs_that_are_apart(engines, coordinates, build):
    found = updates(KV, coordinates, max_size=16, latest=4, non_negative=True)

    @examples(40)
    @given(found, found, st.integers(0, 1000))
    def check(a, b, seed):
        batchings = [time_by_time, *(shuffled(seed + i) for i in range(4))]
        check_equivalent(build(coordinates), {"a": a, "b": b}, engines=engines, batchings=batchings)

    check()


def test_what_is_pending_for_a_later_round_meets_a_join_once(engine):
    """Found by random dataflows: met in the arrangement in the first round, then when its own came."""
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    with flow.letrec(return_at=2) as rec:
        _, q = rec.declare("p", KV), rec.declare("q", KV)
        rec.define("p", a.semijoin(q, on={"v": "k"}).concat(a))
        rec.define("q", q.agg(x=tm.count()).select(k="1", v="x * 2 % 5").concat(b))
    flow.output("p", rec["p"])
    flow.output("q", rec["q"])
    with start(flow, engine) as run:
        run.insert("a", [(0, 1)], time=0)
        run.advance_to(2, input="b")
        run.advance_to(2, input="a")
        assert list(run.changes("p")) == [((0, 1), 0, 2)]


def test_a_join_does_not_index_anew_what_it_holds(monkeypatch):
    appended = []
    append = Spine.append
    monkeypatch.setattr(Spine, "append", lambda s, block: (appended.append(block.shape[1]), append(s, block))[1])
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("a", a)
    flow.output("joined", a.join(b, on="k"))
    run = flow.start()
    run.insert("a", [(i % 10, i) for i in range(1000)], time=99)
    run.advance_to(100, input="a")
    appended.clear()
    for i in range(10):
        run.insert("b", [(i, i)])
        run.advance_to(i + 1, input="b")
    assert sum(appended) < 10 * 10
    run.advance_to(100, input="b")
    assert len(run.snapshot("joined")) == 1000


# -- keys with long trajectories -------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_following_the_next_rounds_leads_to_all_joins_and_no_others(depth):
    rounds = st.tuples(*[st.integers(0, 4)] * depth)

    @examples(100)
    @given(st.lists(rounds, max_size=8), rounds)
    def check(stored, now):
        seen, todo = set(), [now]
        while todo:
            here = todo.pop()
            if here not in seen:
                seen.add(here)
                owner = np.zeros(len(stored), np.int64)
                found = next_rounds(owner, np.array(stored, np.int64).reshape(-1, depth).T, here)[1]
                todo += [tuple(c) for c in found.T.tolist()]
        assert seen == {now, *(lub(now, t) for t in join_closure(stored))}

    check()


def test_each_key_has_next_rounds_of_its_own():
    owner, rounds = next_rounds(np.array([1, 0, 1, 0]), np.array([[7, 2, 5, 9]]), (3,))
    assert (owner.tolist(), rounds.tolist()) == ([0, 1], [[9, 5]])
    owner, rounds = next_rounds(np.array([0, 0, 0, 1]), np.array([[1, 2, 3, 2], [5, 6, 1, 6]]), (1, 0))
    assert (owner.tolist(), rounds.tolist()) == ([0, 0, 1], [[1, 3, 2], [5, 1, 6]])


def test_a_key_owes_a_round_at_a_time(monkeypatch):
    """One key whose group grows in each of many rounds: a change passes through all of them, owing each once."""
    owed, rounds = [], 100
    put = Port.put

    def counting(port, block, at):
        if isinstance(port.operator, KeyedOperator) and port is port.operator.ports[1]:
            owed.append(block.shape[1])
        put(port, block, at)

    monkeypatch.setattr(Port, "put", counting)
    flow = new_flow()
    a = flow.input("a", KV)

    def body(c):
        up = c.filter(f"v < {rounds}").select("k", v="v + 1")
        counted = c.group_by("k").agg(v=tm.count())
        return up.concat(a).concat(counted.filter("v < 0")).distinct()

    flow.output("o", a.iterate(body))
    run = flow.start()
    run.insert("a", [(1, 0)])
    run.advance()
    owed.clear()
    run.insert("a", [(1, 0)])  # changes nothing but the first rounds, and has to be looked at in all
    run.insert("a", [(1, 1)])
    run.advance()
    assert len(run.snapshot("o")) == rounds + 1
    assert rounds / 2 < sum(owed) < 8 * rounds
