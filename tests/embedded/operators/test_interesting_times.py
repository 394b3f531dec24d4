"""Interesting times, sums and corrections in their three forms, against the definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.dataflow.lattice import Antichain, less_equal, lub
from tidemill.renderer.embedded.operators.interesting_times import (
    PartiallyOrderedTimes,
    Seeds,
    SingleTime,
    TotallyOrderedTimes,
    find_interesting_times,
)


def closed(seeds, base, upper):
    """Return what joins of seeds with each other and the base reach, and what of it lies beyond ``upper``."""
    reached = set(seeds)
    pending = set()
    while True:
        joined = {lub(s, t) for s in reached for t in reached | set(base) | set(seeds)}
        pending |= {t for t in joined if upper.beyond(t)}
        grown = reached | {t for t in joined if not upper.beyond(t)}
        if grown == reached:
            return reached, pending
        reached = grown


def block(times, coordinates):
    return np.array(times, np.int64).reshape(-1, coordinates).T


def seeds_of(count, keys, times):
    return Seeds(count, keys, times, bool((times == times[:, :1]).all()))


@pytest.mark.parametrize("coordinates", [1, 2, 3])
def test_interesting_times(coordinates):
    time = st.tuples(*[st.integers(0, 3)] * coordinates)
    keyed = st.tuples(st.integers(0, 2), time)

    @given(st.lists(keyed, max_size=6), st.lists(keyed, max_size=5), st.lists(keyed, max_size=6), st.data())
    def check(more_seeds, base, entries, data):
        seeds = [(k, data.draw(time)) for k in range(3)] + more_seeds
        # Seeds are never beyond the frontier, as they are in the interval of the step.
        upper = Antichain([(5,) * coordinates]) if coordinates == 1 else data.draw(uppers(seeds, coordinates))
        interesting, pending_keys, pending = find_interesting_times(
            seeds_of(3, np.array([k for k, _ in seeds]), block([t for _, t in seeds], coordinates)),
            np.array([k for k, _ in base], np.int64),
            block([t for _, t in base], coordinates),
            upper,
        )
        want, owed = set(), set()
        for key in range(3):
            reached, beyond = closed({t for k, t in seeds if k == key}, {t for k, t in base if k == key}, upper)
            want |= {(key, t) for t in reached}
            owed |= {(key, t) for t in beyond}
        got = [(k, tuple(t)) for k, t in zip(interesting.keys.tolist(), interesting.times.T.tolist())]
        assert sorted(want) == got
        assert {(k, tuple(t)) for k, t in zip(pending_keys.tolist(), pending.T.tolist())} == owed
        check_sums(
            interesting,
            got,
            [e for e in entries if not isinstance(interesting, SingleTime) or below(got, e)],
            coordinates,
        )

    check()


def uppers(seeds, coordinates):
    """Frontiers that none of the seeds is beyond."""
    free = st.lists(st.tuples(*[st.integers(0, 4)] * coordinates), min_size=1, max_size=2).map(Antichain)
    return free.filter(lambda a: not any(a.beyond(t) for _, t in seeds)) | st.just(Antichain())


def below(interesting, entry):
    return all(less_equal(entry[1], t) for k, t in interesting if k == entry[0])


def check_sums(interesting, points, entries, coordinates):
    keys = np.array([k for k, _ in entries], np.int64)
    times = block([t for _, t in entries], coordinates)
    amounts = np.arange(1, len(entries) + 1)
    seen = [{e for e, (k, t) in enumerate(entries) if k == key and less_equal(t, at)} for key, at in points]
    sums = interesting.sums(keys, times, amounts[None])[0]
    assert sums.tolist() == [sum(e + 1 for e in s) for s in seen]
    at, which = interesting.pairs(keys, times)
    assert sorted(zip(at.tolist(), which.tolist())) == sorted((a, e) for a, s in enumerate(seen) for e in s)
    # What is put in and taken out must accumulate to what is wanted: here the point's own number, less all entries
    # seen.
    change = np.zeros(len(points), np.int64)
    to, source, factor = interesting.coefficients()
    np.add.at(change, to, factor * (source + 1))
    to, source, factor = interesting.retractions(keys, times)
    np.subtract.at(change, to, factor * amounts[source])
    for a, (key, at) in enumerate(points):
        total = sum(c for c, (k, t) in zip(change.tolist(), points) if k == key and less_equal(t, at))
        assert total == a + 1 - sum(e + 1 for e in seen[a])


def test_the_three_forms_are_met():
    nothing = np.empty(0, int)
    one, two = block([(0,)], 1), block([(0,), (1,)], 1)
    incomparable = block([(0, 1), (1, 0)], 2)
    kinds = {
        type(find_interesting_times(seeds_of(1, np.zeros(t.shape[1], int), t), nothing, t[:, :0], Antichain())[0])
        for t in (one, two, incomparable)
    }
    assert kinds == {SingleTime, TotallyOrderedTimes, PartiallyOrderedTimes}
