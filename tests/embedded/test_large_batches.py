"""What is done otherwise where a batch is large gives what is given where it is small."""

import datetime as dt
import decimal
from collections import Counter
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

import tidemill as tm
from tidemill.expressions.schema import Schema
from tidemill.renderer.embedded.executor import EmbeddedExecutor
from tidemill.renderer.embedded.kernels import codec, consolidation, gathers, sorting, tables, updates
from tidemill.renderer.embedded.kernels.codec import Interner, encode, float_codes
from tidemill.renderer.embedded.kernels.exact_sums import limb_sums, limbs_of_floats
from tidemill.renderer.embedded.operators import join
from tidemill.renderer.embedded.reduce import accumulators, group_rows
from tidemill.renderer.embedded.trace import spine
from tidemill.testing import check_equivalent

CODES = st.integers(0, 3) | st.sampled_from([updates.NULL, 2**62, -(2**62), 2**63 - 1])


@pytest.fixture
def any_is_large(monkeypatch):
    """Few rows go through all that many would."""
    monkeypatch.setattr(sorting, "FEW", 1)
    monkeypatch.setattr(sorting, "PART", 3)
    monkeypatch.setattr(gathers, "LEAST", 2)
    monkeypatch.setattr(gathers, "PART", 3)
    monkeypatch.setattr(accumulators, "MANY", 0)
    monkeypatch.setattr(codec, "_LONG", 2)
    monkeypatch.setattr(codec, "_MANY", 0)


def _columns(rows, width):
    return np.array(rows, np.int64).reshape(-1, width).T


@pytest.mark.parametrize("hashing", ["hashes", "collisions"])
@pytest.mark.parametrize("most", [0, 1 << 16])
def test_equal_columns_get_one_number(any_is_large, monkeypatch, hashing, most):
    monkeypatch.setattr(tables, "MOST", most)
    if hashing == "collisions":
        monkeypatch.setattr(updates, "hashed", lambda codes: np.zeros(codes.shape[1], np.int64))

    @examples(150)
    @given(st.lists(st.tuples(CODES, CODES), max_size=20))
    def check(rows):
        codes = _columns(rows, 2)
        one, owner = updates.numbered(codes)
        assert [tuple(codes[:, one[i]].tolist()) for i in owner.tolist()] == rows
        assert len(one) == len(set(rows))
        order, starts = updates.grouped(codes)
        assert sorted(order.tolist()) == list(range(len(rows)))
        groups = [{rows[i] for i in g.tolist()} for g in np.split(order, starts[1:].tolist())] if rows else []
        assert all(len(g) == 1 for g in groups)
        assert len(groups) == len(set(rows))

    check()


@pytest.mark.usefixtures("any_is_large")
@examples(60)
@given(st.lists(st.tuples(st.integers(0, 29), st.integers(-2, 2)), max_size=6), st.randoms(use_true_random=False))
def test_where_few_updates_are_equal_they_alone_are_added_up(again, dice):
    """The others are left where they are."""
    rows = [(i, i % 3, 1) for i in range(60)] + [(i, i % 3, n) for i, n in again]
    dice.shuffle(rows)
    expected = Counter()
    for *row, n in rows:
        expected[tuple(row)] += n
    found = updates.consolidated(np.array(rows).T)
    assert {tuple(row): n for *row, n in found.T.tolist()} == {row: n for row, n in expected.items() if n}
    assert found.shape[1] == np.count_nonzero(list(expected.values()))
    twice = updates.consolidated(np.array([(*row, 2 * row[-1]) for row in rows]).T, weights=2)
    assert sorted(twice.T.tolist()) == sorted([*row, 2 * row[-1]] for row in found.T.tolist())


@pytest.mark.usefixtures("any_is_large")
@examples(60)
@given(st.lists(st.one_of(CODES, st.integers(-9, 9)), min_size=1))
def test_each_value_is_found_once_and_has_a_number(codes):
    values, owner = updates.distinct(np.array([codes]))
    assert sorted(values[0].tolist()) == sorted(set(codes))
    assert values[0].take(owner).tolist() == codes


@given(st.lists(st.tuples(CODES, CODES, st.integers(0, 1), st.integers(-2, 2)), min_size=1, max_size=20))
@examples(200)
def test_updates_are_consolidated_row_by_row_as_in_a_matrix(rows):
    block = _columns(rows, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "FEW", 0)
        keys, found = consolidation.consolidated_by(block[0], list(block), [1, 2], 1)
    assert keys.tolist() == sorted(keys.tolist()) == found[0].tolist()
    counts = Counter()
    for *row, n in rows:
        counts[tuple(row)] += n
    assert {tuple(c[:3]): c[3] for c in found.T.tolist()} == {row: n for row, n in counts.items() if n}
    assert found.shape[1] == sum(n != 0 for n in counts.values())


HASHES = [updates.NULL + 1, -(2**62), 0, 1, 2, 3, 2**62, 2**63 - 1]


@given(st.lists(st.tuples(st.sampled_from(HASHES), st.integers(-2, 2)), max_size=40))
@examples(100)
def test_hashes_that_differ_only_in_bits_that_places_take_are_put_in_order(rows):
    """Nothing but the key tells updates apart, and hashes so far apart leave no room for where each of them is."""
    rows = [(2, 1), (HASHES[0], 1), (1, 1), (HASHES[-1], 1), (3, 1), *rows]
    block = np.array([(-HASHES.index(key), 7, count) for key, count in rows]).T  # codes in another order than hashes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "FEW", 0)
        keys, found = consolidation.consolidated_by(np.array([key for key, _ in rows]), block, [1], 1)
    counts = Counter()
    for key, count in rows:
        counts[key] += count
    assert keys.tolist() == sorted(key for key, count in counts.items() if count)
    assert found.T.tolist() == [[-HASHES.index(key), 7, counts[key]] for key in keys.tolist()]


FLOATS = st.floats() | st.floats(-100, 100) | st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1e300, -1e300])


@given(st.lists(st.tuples(st.integers(0, 2), FLOATS, st.integers(-2, 2)), min_size=1, max_size=12))
@examples(300)
def test_limbs_of_floats_added_up_are_those_of_each(rows):
    owner, diffs = (np.array([row[i] for row in rows]) for i in (0, 2))
    codes = float_codes(np.array([row[1] for row in rows]))
    found = limb_sums(3, owner, codes, diffs)
    if found is None:  # not finite, or too far apart
        sizes = np.abs([row[1] for row in rows])
        assert not np.isfinite(sizes).all() or sizes.max() > 1e30 * sizes[sizes > 0].min()
        return
    first, sums = found
    which, place, amount = limbs_of_floats(codes)
    expected = Counter()
    for o, p, a in zip(owner[which].tolist(), place.tolist(), (amount * diffs[which]).tolist(), strict=True):
        expected[o, p] += a
    assert {(o, first + p): n for (p, o), n in np.ndenumerate(sums) if n} == {k: n for k, n in expected.items() if n}


@pytest.mark.parametrize("sign", [1, -1])
def test_so_many_floats_that_their_limbs_could_overflow_are_not_added_up_so(sign):
    codes = float_codes(np.array([1.0, 2.0]))
    assert limb_sums(1, np.zeros(2, np.int64), codes, np.array([sign * 2**30, sign])) is None
    assert limb_sums(1, np.zeros(2, np.int64), codes, np.array([sign * 2**29, sign])) is not None


SCHEMA = {"k": "string", "i": "int64", "x": "float64", "t": "timestamp", "d": "decimal(20,2)"}
ROWS = st.tuples(
    st.sampled_from(["", "a", "b", None]),
    st.none() | st.integers(-3, 3) | st.sampled_from([2**62, -(2**62)]),
    st.none() | st.floats(-9, 9) | st.sampled_from([float("nan"), float("inf"), 1e300, 1e-300]),
    st.none() | st.datetimes(dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)),
    st.none() | st.integers(-999, 999).map(lambda n: decimal.Decimal(n).scaleb(-2)),
)


@given(st.lists(ROWS, max_size=20), st.booleans())
@examples(100)
def test_long_columns_have_the_codes_of_their_values(rows, chunked):
    schema = Schema.of(SCHEMA)
    arrays = [pa.array(c, f.dtype.arrow) for c, f in zip(zip(*rows, strict=True), schema, strict=False)]
    if not rows:
        return
    table = pa.table(dict(zip(schema.names, arrays, strict=True)))
    if chunked:
        table = pa.concat_tables([table.slice(0, len(rows) // 2), table.slice(len(rows) // 2)])
    one, other = Interner(), Interner()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "_LONG", 2)
        patch.setattr(codec, "_MANY", 0)
        long = encode(schema, table, one)
        decoded = [column.to_pylist() for column in codec.decode(schema, long, one)]
    short = encode(schema, table, other)
    assert repr(codec.decode_rows(schema, long, one)) == repr(codec.decode_rows(schema, short, other))
    assert repr(decoded) == repr([column.to_pylist() for column in codec.decode(schema, short, other)])


@given(st.lists(st.text(max_size=1), max_size=12), st.sets(st.integers(0, 5)))
@examples(100)
def test_objects_are_numbered_at_once_as_one_by_one(values, released):
    at_once, one_by_one = Interner(), Interner()
    for interner in (at_once, one_by_one):
        for value in "abcdef":
            interner.number(value)
        interner.release(np.array(sorted(released), np.int64))
    found = at_once.numbers(values).tolist()
    assert [at_once.object(n) for n in found] == values
    assert found == [at_once.number(v) for v in values]
    assert at_once.live == len({*values, *(v for i, v in enumerate("abcdef") if i not in released)})
    for value in values:
        one_by_one.number(value)
    assert len(at_once) == len(one_by_one)


CHANGES = st.lists(st.tuples(ROWS.map(lambda r: r[:4]), st.integers(0, 2), st.sampled_from([1, 1, 2])), max_size=9)


@pytest.mark.slow
@given(CHANGES, st.sampled_from([1, 3, 2048]), st.booleans(), st.sampled_from([1, 50]))
@examples(60)
def test_reduces_of_large_batches_are_those_of_the_reference(changes, indexed_from, single, most_differ):
    flow = tm.Dataflow("large")
    x = flow.input("x", {name: t for name, t in SCHEMA.items() if name != "d"})
    groups = x.group_by("k")
    columns = {"n": tm.count(), "i": tm.count("i"), "s": tm.sum("x"), "a": tm.avg("x"), "v": tm.variance("x")}
    columns |= {"least": tm.min("t"), "last": tm.max("t"), "word": tm.min("k"), "mean": tm.avg("i")}
    flow.output("y", groups.agg(**columns))
    flow.output("top", groups.top_k(2, order_by=[tm.desc("x"), "i"]))
    flow.output("all", x.agg(n=tm.count(), s=tm.sum("x"), m=tm.max("x")))
    # The same rows go later on, so that groups with deletions are there, too.
    given_changes = [(row, 0 if single else t, n) for row, t, n in changes]
    gone = [(row, t + 3, -n) for row, t, n in given_changes[::2]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "FEW", 1)
        patch.setattr(sorting, "PART", 3)
        patch.setattr(accumulators, "MANY", 0)
        patch.setattr(group_rows, "MANY", 0)
        patch.setattr(group_rows, "LARGE_FROM", indexed_from)
        patch.setattr(spine, "TAIL", 1)
        patch.setattr(spine, "MOST_DIFFER", most_differ)
        patch.setattr(codec, "_LONG", 2)
        patch.setattr(codec, "_MANY", 0)
        check_equivalent(flow, {"x": [*given_changes, *gone]})


KEYED = st.lists(
    st.tuples(
        st.tuples(st.none() | st.integers(0, 3), st.integers(0, 2)), st.integers(0, 2), st.sampled_from([-1, 1, 2])
    ),
    max_size=9,
)


@given(KEYED, KEYED)
@examples(80)
def test_joins_of_large_batches_are_those_of_the_reference(left, right):
    flow = tm.Dataflow("joined")
    one, other = flow.input("one", {"k": "int64", "x": "int64"}), flow.input("other", {"k": "int64", "y": "int64"})
    flow.output("pairs", one.join(other, on="k"))
    flow.output("same", one.join(one.rename(x="z"), on="k").select("k", "z", "x"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "FEW", 1)
        patch.setattr(join, "MANY", 0)
        check_equivalent(flow, {"one": left, "other": right})


def test_what_only_sums_read_is_not_said_to_be_consolidated():
    """Whoever takes it from a port, as steps on executors do, then knows that it may repeat."""
    flow = tm.Dataflow("sums")
    flow.output("n", flow.input("summed", {"k": "int64"}).group_by("k").agg(n=tm.count()))
    shown = flow.input("shown", {"k": "int64"})
    flow.output("m", shown.group_by("k").agg(n=tm.count()))
    flow.output("rows", shown)
    with flow.start() as run:
        compiled = cast("EmbeddedExecutor", run._stepper.executor).compiled
        inputs = {node.name: operator for node, operator in compiled.inputs.items()}
        summed, both = inputs["summed"], inputs["shown"]
        assert (summed.may_repeat, summed.consolidated) == (True, False)
        assert (both.may_repeat, both.consolidated) == (False, True)
        (reader, _), *_ = summed.consumers
        assert not any(port.consolidated for port in reader.ports)
        run.insert("summed", [(1,), (1,), (2,)] * 10_000)
        run.delete("summed", [(2,)] * 10_000)
        run.advance()
        assert list(run.snapshot("n")) == [(1, 20_000)]
