"""Times form a lattice, frontiers too, and compaction neither loses nor keeps too much."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

from tidemill.dataflow.lattice import MAX_COORDINATE, Antichain, as_time, glb, join_closure, less_equal, lub, shown
from tidemill.errors import TimeError

SIZES = st.integers(1, 3)


def times(size):
    return st.tuples(*[st.integers(0, 3)] * size)


def some_times(*, at_least=0, at_most=5):
    return SIZES.flatmap(lambda n: st.lists(times(n), min_size=at_least, max_size=at_most).map(lambda ts: (n, ts)))


def _grid(size):
    found: list[tuple[int, ...]] = [()]
    for _ in range(size):
        found = [(*t, c) for t in found for c in range(5)]
    return found


three = SIZES.flatmap(lambda n: st.tuples(times(n), times(n), times(n)))
frontier_pairs = SIZES.flatmap(lambda n: st.tuples(*[st.lists(times(n), max_size=3).map(Antichain)] * 2, st.just(n)))


@pytest.mark.law("Times are a lattice under the product order, which tuple order extends.")
@examples(100)
@given(three)
def test_join_and_meet_are_a_lattice(stu):
    s, t, u = stu
    for op in (lub, glb):
        assert op(s, s) == s
        assert op(s, t) == op(t, s)
        assert op(op(s, t), u) == op(s, op(t, u))
    assert lub(s, glb(s, t)) == s == glb(s, lub(s, t))
    assert less_equal(s, t) == (lub(s, t) == t) == (glb(s, t) == s)


@pytest.mark.law("Times are a lattice under the product order, which tuple order extends.")
@examples(100)
@given(three)
def test_less_equal_is_a_partial_order_which_tuple_order_extends(stu):
    s, t, u = stu
    assert less_equal(s, s)
    assert not (less_equal(s, t) and less_equal(t, s)) or s == t
    assert not (less_equal(s, t) and less_equal(t, u)) or less_equal(s, u)
    assert not less_equal(s, t) or s <= t
    assert less_equal(s, lub(s, t))
    assert not (less_equal(s, u) and less_equal(t, u)) or less_equal(lub(s, t), u)


def test_the_documented_examples():
    assert not less_equal((1, 5), (2, 3))
    assert not less_equal((2, 3), (1, 5))
    assert (lub((1, 5), (2, 3)), glb((1, 5), (2, 3))) == ((2, 5), (1, 3))
    assert (lub((3, 7), (4, 6)), glb((3, 7), (4, 6))) == ((4, 7), (3, 6))
    assert Antichain([(4, 8), (5, 3)]).advance((3, 7)) == (4, 7)
    assert Antichain([(3, 7), (5, 6)]).join(Antichain([(4, 6)])) == Antichain([(4, 7), (5, 6)])
    assert Antichain([(3, 7), (5, 6)]).meet(Antichain([(4, 6)])) == Antichain([(3, 7), (4, 6)])


@given(some_times())
def test_join_closure_is_every_join_of_some(found):
    _, ts = found
    joins = set()
    for subset in range(1, 2 ** len(ts)):
        chosen = [t for i, t in enumerate(ts) if subset >> i & 1]
        joined = chosen[0]
        for t in chosen[1:]:
            joined = lub(joined, t)
        joins.add(joined)
    assert join_closure(ts) == sorted(joins)


@given(some_times())
def test_an_antichain_keeps_the_minimal_times(found):
    n, ts = found
    frontier = Antichain(ts)
    assert all(not less_equal(a, b) for a in frontier.elements for b in frontier.elements if a != b)
    for t in _grid(n):
        assert frontier.beyond(t) == any(less_equal(f, t) for f in ts)


@given(frontier_pairs)
def test_frontiers_are_a_lattice_of_what_is_beyond_them(pair):
    a, b, n = pair
    for t in _grid(n):
        assert a.join(b).beyond(t) == (a.beyond(t) and b.beyond(t))
        assert a.meet(b).beyond(t) == (a.beyond(t) or b.beyond(t))
    assert a.join(b).dominates(a)
    assert a.dominates(a.meet(b))
    assert a.dominates(b) == (a.join(b) == a)
    assert (a == b) == (hash(a) == hash(b)) or a != b


@pytest.mark.law("Advancing a time by a frontier is sound and canonical.")
@given(some_times(at_least=1, at_most=3))
def test_advance_is_sound_and_canonical(found):
    n, ts = found
    frontier = Antichain(ts)
    beyond = [s for s in _grid(n) if frontier.beyond(s)]
    views = {}
    for t in _grid(n):
        advanced = frontier.advance(t)
        seen = tuple(less_equal(t, s) for s in beyond)
        assert seen == tuple(less_equal(advanced, s) for s in beyond)  # sound
        if max(t) <= 3:  # the grid tells apart only what is inside it
            assert views.setdefault(seen, advanced) == advanced  # canonical
        assert frontier.advance(advanced) == advanced


def test_beyond_the_empty_frontier_nothing_is_read():
    assert Antichain().advance((3, 4)) == (3, 4)
    assert not Antichain().beyond((0,))
    assert Antichain().dominates(Antichain([(9, 9)]))


@given(SIZES.flatmap(times))
def test_after_makes_just_the_times_up_to_it_final(t):
    frontier = Antichain.after(t)
    assert all(frontier.beyond(s) == (not less_equal(s, t)) for s in _grid(len(t)))


def test_frontiers_are_values():
    frontier = Antichain([(1, 2)])
    assert {frontier: 1}[Antichain([(1, 2)])] == 1
    assert repr(Antichain([3])) == "Antichain(3)"
    assert list(Antichain([3])) == [3]
    assert list(Antichain([(2, 1), (1, 2)])) == [(1, 2), (2, 1)]
    with pytest.raises(AttributeError, match="immutable"):
        frontier.elements = ()


@pytest.mark.parametrize("value", [-1, 1.5, "1", None, True, (1,) * 2, MAX_COORDINATE])
def test_what_is_not_a_time_is_refused(value):
    with pytest.raises(TimeError, match="is not a time here: expected a non-negative integer"):
        as_time(value, 1)


def test_a_time_that_is_too_large_is_told_the_limit():
    with pytest.raises(TimeError, match=r"is not a time here: expected a non-negative integer below 2\*\*62$"):
        as_time(MAX_COORDINATE, 1)
    with pytest.raises(TimeError, match=r"expected a tuple of 2 non-negative integers below 2\*\*62$"):
        as_time((0, 2**80), 2)
    with pytest.raises(TimeError, match="expected a non-negative integer$"):
        as_time(-1, 1)


def test_times_as_users_write_them():
    assert as_time(3, 1) == as_time((3,), 1) == as_time([3], 1) == (3,)
    assert as_time((0, 5), 2) == (0, 5)
    assert (shown((3,)), shown((3, 4))) == (3, (3, 4))
    with pytest.raises(TimeError, match="expected a tuple of 2 non-negative integers"):
        as_time(3, 2)
