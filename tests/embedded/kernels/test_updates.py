"""Kernels on blocks against plain dicts, hash collisions included."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.dataflow.lattice import Antichain, less_equal
from tidemill.errors import CountOverflowError
from tidemill.renderer.embedded.kernels import consolidation, gathers, sorting, times
from tidemill.renderer.embedded.kernels import updates as blocks


@st.composite
def random_blocks(draw, codes=2, weights=1):
    column = st.tuples(*[st.integers(0, 3)] * codes, *[st.integers(-2, 2)] * weights)
    columns = draw(st.lists(column, max_size=12))
    return np.array(columns, np.int64).reshape(-1, codes + weights).T


def as_dict(block, weights=1):
    sums = defaultdict(lambda: (0,) * weights)
    for column in block.T.tolist():
        row, weight = tuple(column[:-weights]), column[-weights:]
        sums[row] = tuple(a + b for a, b in zip(sums[row], weight))
    return {row: w for row, w in sums.items() if any(w)}


def few(monkeypatch, count):
    """Have so many columns be few."""
    monkeypatch.setattr(blocks, "_FEW", count)
    monkeypatch.setattr(blocks, "_FEW_ADDED_UP", count)


@pytest.fixture(params=["hashes", "collisions", "few", "many"])
def hashing(request, monkeypatch):
    """With every hash the same, equality alone must decide; "few" are told apart in Python, without hashes.

    Of "many", those that no other equals are left where they are.
    """
    few(monkeypatch, 12 if request.param == "few" else 0)
    if request.param == "many":
        monkeypatch.setattr(sorting, "FEW", 0)
    if request.param == "collisions":
        monkeypatch.setattr(blocks, "hashed", lambda codes: np.zeros(codes.shape[1], np.int64))
    return request.param


@pytest.mark.parametrize("codes", [1, 2, 3])
@pytest.mark.parametrize("weights", [1, 2])
def test_consolidated(codes, weights, hashing):
    if hashing == "collisions" and codes == 1:
        return  # a single code is its own hash: it cannot collide

    @given(random_blocks(codes=codes, weights=weights))
    def check(block):
        result = blocks.consolidated(block, weights)
        rows = [tuple(c) for c in result[:codes].T.tolist()]
        assert len(set(rows)) == len(rows)
        assert as_dict(result, weights) == as_dict(block, weights)
        assert result.shape[1] == len(as_dict(block, weights))

    check()


@pytest.mark.parametrize("weights", [1, 2])
@pytest.mark.parametrize("n", [2, 40, 500])
def test_consolidated_without_codes_is_the_sum_of_weights(n, weights):
    block = np.array([[*range(1, n), 7]] * weights)
    assert blocks.consolidated(block, weights).tolist() == [[n * (n - 1) // 2 + 7]] * weights


@pytest.mark.parametrize("weights", [1, 2])
@given(st.integers(600, 3000), st.lists(st.tuples(st.integers(0, 599), st.integers(-1, 1)), max_size=90), st.booleans())
def test_consolidated_of_many_of_which_few_are_equal(weights, n, again, are_zero):
    columns = [(i, i % 7, *[0 if are_zero and i % 5 == 0 else 1] * weights) for i in range(n)]
    columns += [(i, i % 7, *[diff] * weights) for i, diff in again]
    block = np.array(columns, np.int64).T
    result = blocks.consolidated(block, weights)
    assert as_dict(result, weights) == as_dict(block, weights)
    assert result.shape[1] == len(as_dict(block, weights))


@pytest.fixture(params=["second hash", "no second hash"])
def second(request, monkeypatch):
    """Whether a second hash tells updates of one key apart."""
    if request.param == "no second hash":
        monkeypatch.setattr(blocks, "_MULTIPLIERS", np.zeros(9, np.int64))


@pytest.fixture(params=["few", "many", "many, in parts"])
def count(request, monkeypatch):
    """With "many", updates are looked at as if they were; in parts of three, columns packed into words, or in one."""
    if request.param != "few":
        monkeypatch.setattr(sorting, "FEW", 0)
    if request.param == "many, in parts":
        monkeypatch.setattr(sorting, "PART", 3)
        monkeypatch.setattr(gathers, "LEAST", 2)


@pytest.mark.parametrize("keys", ["one code", "one hash for all", "far apart", "differing late", "with NULL"])
@pytest.mark.parametrize("weights", [1, 2])
@pytest.mark.parametrize("runs", [False, True])
def test_consolidated_by_key(keys, second, weights, runs, count):
    """Sorted by key, each update once, whatever of the two hashes that one sort uses collides."""
    of_key = {
        "one code": lambda code: code,
        "one hash for all": lambda code: code * 0,
        "far apart": lambda code: code << 61,
        "differing late": lambda code: code % 3 + ((code & 1) << 62),
        "with NULL": lambda code: np.where(code == 1, blocks.NULL, code % 3),
    }[keys]

    @given(random_blocks(codes=3, weights=weights))
    def check(block):
        found, result = consolidation.consolidated_by(of_key(block[0]), block, [1, 2], weights, runs=runs)
        assert found.tolist() == sorted(of_key(block[0])[i] for i in _first_of_each(block, result))
        assert found.tolist() == of_key(result[0]).tolist()
        assert as_dict(result, weights) == as_dict(block, weights)
        assert result.shape[1] == len(as_dict(block, weights))

    check()


@pytest.mark.parametrize("keys", ["one code", "one hash for all"])
def test_rows_of_one_number_over_and_over_do_not_tell_updates_apart(keys, second, count):
    """As times are, mostly: where nothing else tells updates of a key apart, its hash alone is sorted by."""

    @given(random_blocks(codes=3))
    def check(block):
        block[1:3] = 7
        rows = [block[0], *(np.broadcast_to(np.int64(7), block.shape[1]) for _ in range(2)), block[3]]
        key = block[0] * 0 if keys == "one hash for all" else block[0]
        rooms = []

        def room(n):
            rooms.append(np.zeros((4, n), np.int64))
            return rooms[-1]

        found, result = consolidation.consolidated_by(key, rows, [1, 2], 1, room=room)
        assert sorted(found.tolist()) == found.tolist()
        assert as_dict(result) == as_dict(block)
        assert result.shape[1] == len(as_dict(block))
        assert block.shape[1] == 0 or result is rooms[-1]

    check()


@pytest.mark.parametrize("most", [1, 2, 5, 40])
def test_the_sums_of_groups_are_the_same_however_large_groups_are(most, monkeypatch):
    monkeypatch.setattr(blocks, "_MANY_SUMS", 0)

    @given(st.lists(st.integers(1, most), min_size=1, max_size=9), st.randoms(use_true_random=False))
    def check(lengths, dice):
        weights = np.array([[dice.randint(-3, 3) for _ in range(sum(lengths))] for _ in range(2)], np.int64)
        ends = np.cumsum(lengths)
        expected = [weights[:, end - n : end].sum(axis=1).tolist() for n, end in zip(lengths, ends, strict=True)]
        assert blocks.added_up(weights, ends - lengths).T.tolist() == expected

    check()


def test_a_sum_beyond_64_bits_is_refused_among_many():
    weights = np.ones((1, 10_000), np.int64)
    weights[0, 1_000:1_002] = 2**62
    starts = np.delete(np.arange(10_000), 1_001)
    with pytest.raises(CountOverflowError):
        blocks.added_up(weights, starts)


def _first_of_each(block, result):
    """Where in the block each column of the result is first found."""
    rows = [tuple(c) for c in block[:3].T.tolist()]
    return [rows.index(tuple(c)) for c in result[:3].T.tolist()]


@pytest.mark.parametrize("where", ["small", "small and NULL", "seconds of twenty years", "NULL alone", "hashes"])
def test_one_sort_tells_usual_keys_apart(where):
    """Else each merge of a spine would sort its updates a second time, by all their codes."""
    dice = np.random.default_rng(1)
    keys = {
        "small": dice.integers(0, 300, 300),
        "small and NULL": np.where(np.arange(300) % 9, dice.integers(-5, 300, 300), blocks.NULL),
        "seconds of twenty years": 10**15 + dice.integers(0, 6 * 10**8, 300) * 10**6,
        "NULL alone": np.full(300, blocks.NULL),
        "hashes": np.concatenate((dice.integers(-(2**63), 2**63, 298), [-(2**63) + 1, 2**63 - 1])),
    }[where]
    for minor in (0, -1):
        found = consolidation._in_one(keys, np.full(300, minor))
        assert np.array_equal(found[:, None] < found, keys[:, None] < keys)


def test_grouped_puts_equal_columns_together(hashing):
    @given(random_blocks(codes=2))
    def check(block):
        order, starts = blocks.grouped(block[:2])
        assert sorted(order.tolist()) == list(range(block.shape[1]))
        groups = [{tuple(block[:2, i]) for i in g} for g in np.split(order, starts[1:])] if len(order) else []
        assert all(len(g) == 1 for g in groups)
        assert len(groups) == len({tuple(c) for c in block[:2].T.tolist()})

    check()


times_2d = st.tuples(st.integers(0, 4), st.integers(0, 4))


@given(st.lists(times_2d, max_size=8), st.lists(times_2d, max_size=3))
def test_advance_and_beyond_are_those_of_antichains(points, frontier):
    antichain = Antichain(frontier)
    block = np.array([(*t, 1) for t in points], np.int64).reshape(-1, 3).T
    advanced = times.advance(block, 0, 2, antichain)
    assert [tuple(c) for c in advanced[:2].T.tolist()] == [antichain.advance(t) for t in points]
    assert times.beyond(block[:2], antichain).tolist() == [antichain.beyond(t) for t in points]


@pytest.mark.parametrize("count", [0, 8])
@pytest.mark.parametrize("weights", [[2**62, 2**62], [-(2**62), -(2**62)], [2**63 - 1, 1]])
def test_sums_beyond_64_bits_are_refused_of_few_and_of_many(count, weights, monkeypatch):
    few(monkeypatch, count)
    with pytest.raises(CountOverflowError):
        blocks.consolidated(np.array([[7, 7], weights], np.int64))


@given(st.lists(times_2d, min_size=1, max_size=12), times_2d, st.integers(1, 2))
def test_all_are_up_to_a_time_if_each_is(points, time, users):
    found = times.all_up_to(np.array(points).T[:users], np.array(time)[:users, None])
    assert found == all(less_equal(p[:users], time[:users]) for p in points)


@given(st.lists(st.integers(-(2**62), 2**62), max_size=12), st.data())
def test_sums_at_places_and_largest_values(values, data):
    array = np.array(values, np.int64)
    assert blocks.largest(array) == max(map(abs, values), default=0)
    places = data.draw(st.lists(st.integers(0, 2), min_size=len(values), max_size=len(values)))
    small = array % 1000
    sums, expected = np.zeros(3, np.int64), np.zeros(3, np.int64)
    blocks.add_at(sums, np.array(places, np.int64), small)
    np.add.at(expected, np.array(places, np.int64), small)
    assert sums.tolist() == expected.tolist()
