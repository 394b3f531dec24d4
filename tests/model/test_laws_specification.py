"""Each operator holds, at every time, what its meaning makes of what its inputs hold there; computed by hand here."""

import math
from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import KV, at, examples, grid, traces

import tidemill as tm
from tidemill.testing import updates

DIMENSIONS = pytest.mark.parametrize("coordinates", [1, 2])
PLAIN = {"k": [0, 1, None], "v": [0, 1, 2, None]}


def draws(data, coordinates, names="a", **options):
    return {n: data.draw(updates(KV, coordinates, values=PLAIN, **options), label=n) for n in names}


def check(engine, build, meaning, given_updates, coordinates):
    """``acc(out)(t) = meaning(acc(in)(t), ...)`` for every time, and no update is needless."""
    (out,) = traces(engine, build, given_updates, coordinates=coordinates)
    assert len({(row, t) for row, t, _ in out}) == len(out)
    assert all(diff for _, _, diff in out)
    for t in grid(*given_updates.values()):
        expected = meaning(*(at(found, t) for found in given_updates.values()))
        assert at(out, t) == {row: count for row, count in expected.items() if count}, f"at {t}"


def each(function):
    def meaning(rows):
        found = Counter()
        for row, count in rows.items():
            for made in function(*row):
                found[made] += count
        return found

    return meaning


def groups(rows):
    found = defaultdict(dict)
    for row, count in rows.items():
        found[row[0]][row] = count
    return found


LINEAR = {
    "select": (lambda a: a.select(k="v", v="k"), each(lambda k, v: [(v, k)])),
    "filter": (lambda a: a.filter("v > 0"), each(lambda k, v: [(k, v)] if v is not None and v > 0 else [])),
    "map_rows": (lambda a: a.map_rows(lambda r: (r.k, 1), KV), each(lambda k, v: [(k, 1)])),
    "flat_map": (lambda a: a.flat_map(lambda r: [r, (r.v, 7)], KV), each(lambda k, v: [(k, v), (v, 7)])),
    "negate": (lambda a: a.negate(), lambda rows: {row: -n for row, n in rows.items()}),
    "consolidate": (lambda a: a.consolidate(), dict),
    "arrange_by": (lambda a: a.arrange_by("v"), dict),
    "inspect": (lambda a: a.inspect(lambda *_: None), dict),
}


@pytest.mark.law("At every time, an operator's contents are its meaning applied to the contents of its inputs.")
@DIMENSIONS
@pytest.mark.parametrize("operator", LINEAR)
@examples(15)
@given(data=st.data())
def test_linear_operators(engine, coordinates, operator, data):
    build, meaning = LINEAR[operator]
    check(engine, build, meaning, draws(data, coordinates), coordinates)


def distinct(rows):
    return {row: 1 for row, n in rows.items() if n > 0}


def counted(rows):
    return {(*row, n): 1 for row, n in rows.items()}


@pytest.mark.law("At every time, an operator's contents are its meaning applied to the contents of its inputs.")
@DIMENSIONS
@given(data=st.data())
def test_distinct_gives_one_for_a_positive_count_and_nothing_otherwise(engine, coordinates, data):
    check(engine, lambda a: a.distinct(), distinct, draws(data, coordinates), coordinates)


@pytest.mark.law("At every time, an operator's contents are its meaning applied to the contents of its inputs.")
@DIMENSIONS
@given(data=st.data())
def test_threshold(engine, coordinates, data):
    def function(row, n):
        return -n if n > 1 else 2 * n

    def meaning(rows):
        return {row: function(row, n) for row, n in rows.items()}

    check(engine, lambda a: a.threshold(function), meaning, draws(data, coordinates), coordinates)


@pytest.mark.law("At every time, an operator's contents are its meaning applied to the contents of its inputs.")
@DIMENSIONS
@given(data=st.data())
def test_count(engine, coordinates, data):
    check(engine, lambda a: a.count(), counted, draws(data, coordinates), coordinates)


@pytest.mark.law("At every time, an operator's contents are its meaning applied to the contents of its inputs.")
@DIMENSIONS
@given(data=st.data())
def test_concat(engine, coordinates, data):
    def meaning(a, b):
        return {row: a.get(row, 0) + b.get(row, 0) for row in {**a, **b}}

    check(engine, lambda a, b: a.concat(b), meaning, draws(data, coordinates, "ab"), coordinates)


@pytest.mark.law("At every time, an operator's contents are its meaning applied to the contents of its inputs.")
@DIMENSIONS
@given(data=st.data())
def test_set_operations(engine, coordinates, data):
    given_updates = draws(data, coordinates, "ab")

    def less(a, b):
        return {row: max(a.get(row, 0) - b.get(row, 0), 0) for row in {**a, **b}}

    check(engine, lambda a, b: a.except_all(b), less, given_updates, coordinates)

    def apart(a, b):
        return {row: 1 for row, n in a.items() if n > 0 and b.get(row, 0) <= 0}

    check(engine, lambda a, b: a.except_distinct(b), apart, given_updates, coordinates)

    def both(a, b):
        return {row: 1 for row, n in a.items() if n > 0 and b.get(row, 0) > 0}

    check(engine, lambda a, b: a.intersect(b), both, given_updates, coordinates)


# Joins.


def matches(left, right, nulls_equal):
    return left == right and (nulls_equal or left is not None)


def inner(nulls_equal):
    def meaning(a, b):
        found = Counter()
        for (k, v), m in a.items():
            for (j, w), n in b.items():
                if matches(k, j, nulls_equal):
                    found[k, v, w] += m * n
        return found

    return meaning


def half(nulls_equal, *, keep):
    def meaning(a, b):
        keys = Counter()
        for (j, _), n in b.items():
            keys[j] += n
        present = {j for j, n in keys.items() if n > 0}
        return {r: n for r, n in a.items() if any(matches(r[0], j, nulls_equal) for j in present) == keep}

    return meaning


def outer(nulls_equal, how):
    def meaning(a, b):
        found = inner(nulls_equal)(a, b)
        if how in ("left", "full"):
            for (k, v), n in half(nulls_equal, keep=False)(a, b).items():
                found[k, v, None] += n
        if how in ("right", "full"):
            for (j, w), n in half(nulls_equal, keep=False)(b, a).items():
                found[j, None, w] += n
        return found

    return meaning


@pytest.mark.law("At every time, an operator's contents are its meaning applied to the contents of its inputs.")
@DIMENSIONS
@pytest.mark.parametrize("nulls_equal", [False, True])
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@examples(12)
@given(data=st.data())
def test_joins(engine, coordinates, how, nulls_equal, data):
    if how in ("semi", "anti"):
        meaning = half(nulls_equal, keep=how == "semi")
    else:
        meaning = inner(nulls_equal) if how == "inner" else outer(nulls_equal, how)

    def build(a, b):
        return a.join(b, on="k", how=how, nulls_equal=nulls_equal)

    check(engine, build, meaning, draws(data, coordinates, "ab"), coordinates)


@pytest.mark.law("At every time, an operator's contents are its meaning applied to the contents of its inputs.")
@DIMENSIONS
@examples(15)
@given(data=st.data())
def test_cross_join(engine, coordinates, data):
    def meaning(a, b):
        return {(*r, *s): m * n for r, m in a.items() for s, n in b.items()}

    check(engine, lambda a, b: a.cross_join(b), meaning, draws(data, coordinates, "ab", max_size=6), coordinates)


@DIMENSIONS
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@examples(12)
@given(data=st.data())
def test_joins_with_a_further_condition(engine, coordinates, how, data):
    """By pairs: a row is alone when no pair with it meets the condition with a positive count."""

    def fits(v, w):
        return v is not None and w is not None and v <= w

    def meaning(a, b):
        pairs = Counter()
        lefts, rights = Counter(), Counter()
        for (k, v), m in a.items():
            for (j, w), n in b.items():
                if k == j and k is not None and fits(v, w):
                    pairs[k, v, w] += m * n
                    lefts[k, v] += m * n
                    rights[j, w] += m * n
        if how == "semi":
            return {r: n for r, n in a.items() if lefts[r] > 0}
        if how == "anti":
            return {r: n for r, n in a.items() if lefts[r] <= 0}
        if how in ("left", "full"):
            for (k, v), n in a.items():
                pairs[k, v, None] += n if lefts[k, v] <= 0 else 0
        if how in ("right", "full"):
            for (j, w), n in b.items():
                pairs[j, None, w] += n if rights[j, w] <= 0 else 0
        return pairs

    def build(a, b):
        return a.join(b, on="k", how=how, where="v <= v_right")

    check(engine, build, meaning, draws(data, coordinates, "ab"), coordinates)


# Reduce.


def linear_aggregates(rows, key):
    known = [(v, n) for (_, v), n in rows.items() if v is not None]
    count = sum(n for _, n in known)
    total = sum(v * n for v, n in known)
    return (*key, sum(rows.values()), count, total if count else None, total / count if count else None)


def linear(rows):
    found = ((k, group) for k, group in groups(rows).items())
    return {linear_aggregates(group, (k,)): 1 for k, group in found if sum(group.values())}


def order(row):
    return [(v is not None, v if v is not None else 0) for v in row]


LINEAR_AGGREGATES = {"n": tm.count(), "m": tm.count("v"), "s": tm.sum("v"), "x": tm.avg("v")}


@pytest.mark.law("At every time, an operator's contents are its meaning applied to the contents of its inputs.")
@DIMENSIONS
@given(data=st.data())
def test_linear_aggregates_take_any_counts(engine, coordinates, data):
    def build(a):
        return a.group_by("k").agg(**LINEAR_AGGREGATES)

    check(engine, build, linear, draws(data, coordinates), coordinates)


@pytest.mark.law("Aggregates without keys give one row at every time.")
@DIMENSIONS
@given(data=st.data())
def test_without_keys_there_is_always_one_row(engine, coordinates, data):
    given_updates = draws(data, coordinates)
    (out,) = traces(engine, lambda a: a.agg(**LINEAR_AGGREGATES), given_updates, coordinates=coordinates)
    least = 0 if coordinates == 1 else (0,) * coordinates
    for t in [least, *grid(*given_updates.values())]:
        assert at(out, t) == {linear_aggregates(at(given_updates["a"], t), ()): 1}


@pytest.mark.law("At every time, an operator's contents are its meaning applied to the contents of its inputs.")
@DIMENSIONS
@given(data=st.data())
def test_min_and_max(engine, coordinates, data):
    def meaning(rows):
        found = {}
        for k, group in groups(rows).items():
            known = [v for _, v in group if v is not None]
            found[k, min(known, default=None), max(known, default=None)] = 1
        return found

    def build(a):
        return a.group_by("k").agg(low=tm.min("v"), high=tm.max("v"))

    check(engine, build, meaning, draws(data, coordinates, non_negative=True), coordinates)


@pytest.mark.law("At every time, an operator's contents are its meaning applied to the contents of its inputs.")
@DIMENSIONS
@given(data=st.data())
def test_a_users_reduce_sees_the_sorted_group(engine, coordinates, data):
    def shown(key, rows):
        return [((*key, repr(rows)), 1)]

    def meaning(rows):
        found = {}
        for k, group in groups(rows).items():
            pairs = sorted(((row[1:], n) for row, n in group.items()), key=lambda pair: order(pair[0]))
            found[k, repr(pairs)] = 1
        return found

    def build(a):
        return a.group_by("k").reduce(shown, {"k": "int64", "rows": "string"})

    check(engine, build, meaning, draws(data, coordinates, non_negative=True), coordinates)


FLOATS = {"k": "int64", "f": "float64"}


@pytest.mark.law("Sums of floats are exact and rounded once.")
@DIMENSIONS
@given(data=st.data())
def test_sums_of_floats_are_exact_and_rounded_once(engine, coordinates, data):
    values: dict[str, list[Any]] = {"k": [0, 1], "f": [0.1, 1e20, -1e20, 1.0, 1e-300, 3.5, None]}
    found = data.draw(updates(FLOATS, coordinates, values=values, non_negative=True))

    def meaning(rows):
        sums = {}
        for k, group in groups(rows).items():
            known = [(Fraction(f), n) for (_, f), n in group.items() if f is not None]
            total, count = float(sum((f * n for f, n in known), Fraction())), sum(n for _, n in known)
            sums[(k, total if count else None, total / count if count else None)] = 1
        return sums

    def build(a):
        return a.group_by("k").agg(s=tm.sum("f"), x=tm.avg("f"))

    (out,) = traces(engine, build, {"a": found}, coordinates=coordinates, schema={"a": FLOATS})
    for t in grid(found):
        assert at(out, t) == meaning(at(found, t))


def test_inserting_and_deleting_a_great_number_leaves_the_small_one(engine):
    found = [((0, 1e20), 0, 1), ((0, 1.0), 0, 1), ((0, 1e20), 1, -1)]
    (out,) = traces(engine, lambda a: a.agg(s=tm.sum("f")), {"a": found}, schema={"a": FLOATS})
    assert at(out, 0) == {(1e20,): 1}
    assert at(out, 1) == {(1.0,): 1}


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([math.inf, 1.0], math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
        ([-0.0, -0.0], 0.0),
        ([1.7e308, 1.7e308], math.inf),
        ([1.7e308, 1.7e308, -1.7e308], 1.7e308),
        ([5e-324, 5e-324], 1e-323),
        ([0.1] * 10, math.fsum([0.1] * 10)),
    ],
)
def test_sums_by_ieee(engine, values, total):
    found = [((i % 2, v), 0, 1) for i, v in enumerate(values)]
    (out,) = traces(engine, lambda a: a.agg(s=tm.sum("f")), {"a": found}, schema={"a": FLOATS})
    assert repr([row for row, _, _ in out]) == repr([(total,)])


def test_an_average_of_integers_is_rounded_once(engine):
    values = [2**62 + 1, 2**62 + 1, 2**62 + 2]  # the sum is no float, nor is it an int64
    found = [((i, v), 0, 1) for i, v in enumerate(values)]
    (out,) = traces(engine, lambda a: a.agg(x=tm.avg("v")), {"a": found})
    assert [row for row, _, _ in out] == [(sum(values) / 3,)]


# Time.


@pytest.mark.law("Contents after a delay are the updates whose delayed time has come.")
@given(found=updates(KV, 1), steps=st.integers(0, 3))
def test_delay_by_steps(engine, found, steps):
    (out,) = traces(engine, lambda a: a.delay(steps), {"a": found})
    moved = [(row, t + steps, diff) for row, t, diff in found]
    for t in range(8):
        assert at(out, t) == at(moved, t)


@pytest.mark.law("Contents after a delay are the updates whose delayed time has come.")
@given(found=updates(KV, 2), steps=st.tuples(st.integers(0, 2), st.integers(0, 2)))
def test_delay_by_a_monotone_function_in_two_coordinates(engine, found, steps):
    def move(t):
        return (max(t[0], steps[0]), max(t[1], steps[1]))

    (out,) = traces(engine, lambda a: a.delay(move), {"a": found}, coordinates=2)
    for t in [(i, j) for i in range(5) for j in range(5)]:
        assert at(out, t) == at([(row, move(s), diff) for row, s, diff in found], t)
