"""Equalities of consolidated update sets that hold whatever the data: linearity, joins, sets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import KV, assert_same, examples

import tidemill as tm
from tidemill.testing import updates

DIMENSIONS = pytest.mark.parametrize("coordinates", [1, 2])


def draws(data, coordinates, names, **options):
    return {n: data.draw(updates(KV, coordinates, max_size=10, **options), label=n) for n in names}


LINEAR = {
    "select": lambda c: c.select("v", k="k + 1"),
    "filter": lambda c: c.filter("k > 0"),
    "map_rows": lambda c: c.map_rows(lambda r: (r.v, 0), KV),
    "flat_map": lambda c: c.flat_map(lambda r: [r] * max(r.k or 0, 0), KV),
    "consolidate": lambda c: c.consolidate(),
    "arrange_by": lambda c: c.arrange_by("k"),
    "inspect": lambda c: c.inspect(lambda *_: None),
    "delay": lambda c: c.delay(lambda t: t),
    "negate": lambda c: c.negate(),
    "enter and leave": lambda c: c.iterate(lambda here: here),
}


@pytest.mark.law("Linear operators distribute over concat and negate.")
@DIMENSIONS
@pytest.mark.parametrize("operator", LINEAR)
@examples(10)
@given(data=st.data())
def test_linear_operators_distribute_over_concat_and_negate(engine, coordinates, operator, data):
    apply = LINEAR[operator]
    found = draws(data, coordinates, "ab")
    assert_same(engine, lambda a, b: [apply(a.concat(b)), apply(a).concat(apply(b))], found, coordinates=coordinates)
    assert_same(engine, lambda a, b: [apply(a.negate()), apply(a).negate()], found, coordinates=coordinates)


@pytest.mark.law("A collection and its negation add up to nothing.")
@DIMENSIONS
@given(data=st.data())
def test_a_collection_and_its_negation_are_nothing(engine, coordinates, data):
    found = draws(data, coordinates, "a")
    assert assert_same(engine, lambda a: a.concat(a.negate()), found, coordinates=coordinates) == []


@pytest.mark.law("Consolidate is idempotent and invisible.")
@DIMENSIONS
@given(data=st.data())
def test_consolidate_is_idempotent_and_invisible(engine, coordinates, data):
    def build(a):
        return [a, a.consolidate(), a.consolidate().consolidate(), a.arrange_by("k", "v")]

    assert_same(engine, build, draws(data, coordinates, "a"), coordinates=coordinates)


@pytest.mark.law("Concat is commutative and associative.")
@DIMENSIONS
@given(data=st.data())
def test_concat_is_commutative_and_associative(engine, coordinates, data):
    def build(a, b, c):
        return [a.concat(b, c), c.concat(a).concat(b), a.concat(b.concat(c))]

    assert_same(engine, build, draws(data, coordinates, "abc"), coordinates=coordinates)


def joined(left, right, **options):
    """The join on k, of the whole rows."""
    return left.join(right.select("k", w="v"), on="k", **options).select("k", "v", "w")


@pytest.mark.slow
@pytest.mark.law("Join is bilinear.")
@DIMENSIONS
@pytest.mark.parametrize("nulls_equal", [False, True])
@examples(20)
@given(data=st.data())
def test_join_is_bilinear(engine, coordinates, nulls_equal, data):
    def build(a, b, c):
        def join(x, y):
            return joined(x, y, nulls_equal=nulls_equal)

        return [join(a.concat(b.negate()), c), join(a, c).concat(join(b, c).negate())]

    found = draws(data, coordinates, "abc")
    assert_same(engine, build, found, coordinates=coordinates)
    assert_same(engine, lambda a, b, c: build(a, b, c)[:1] + build(a, b, c)[1:], found, coordinates=coordinates)


@pytest.mark.law("Join is bilinear.")
@DIMENSIONS
@examples(20)
@given(data=st.data())
def test_join_is_linear_on_the_right_too(engine, coordinates, data):
    def build(a, b, c):
        return [joined(c, a.concat(b)), joined(c, a).concat(joined(c, b))]

    assert_same(engine, build, draws(data, coordinates, "abc"), coordinates=coordinates)


@pytest.mark.law("Join is commutative up to the order of columns, and associative.")
@DIMENSIONS
@examples(20)
@given(data=st.data())
def test_join_commutes_up_to_the_order_of_columns(engine, coordinates, data):
    def build(a, b):
        return [joined(a, b), joined(b, a).select("k", v="w", w="v")]

    assert_same(engine, build, draws(data, coordinates, "ab"), coordinates=coordinates)


@pytest.mark.law("Join is commutative up to the order of columns, and associative.")
@DIMENSIONS
@examples(20)
@given(data=st.data())
def test_join_is_associative(engine, coordinates, data):
    def build(a, b, c):
        b = b.select("k", w="v")
        c = c.select("k", x="v")
        return [a.join(b, on="k").join(c, on="k"), a.join(b.join(c, on="k"), on="k")]

    assert_same(engine, build, draws(data, coordinates, "abc"), coordinates=coordinates)


@pytest.mark.law("Semijoin and antijoin add up to the left side, each row with its own count.")
@DIMENSIONS
@pytest.mark.parametrize("nulls_equal", [False, True])
@examples(20)
@given(data=st.data())
def test_semijoin_and_antijoin_are_the_whole(engine, coordinates, nulls_equal, data):
    def build(a, b):
        semi, anti = (a.join(b, on="k", how=how, nulls_equal=nulls_equal) for how in ("semi", "anti"))
        return [a, semi.concat(anti)]

    assert_same(engine, build, draws(data, coordinates, "ab"), coordinates=coordinates)


@DIMENSIONS
@examples(20)
@given(data=st.data())
def test_outer_joins_are_the_inner_one_and_those_alone(engine, coordinates, data):
    def build(a, b):
        b = b.select("k", w="v")
        parts = {how: a.join(b, on="k", how=how) for how in ("inner", "left", "right", "full")}
        return [parts["full"].concat(parts["inner"]), parts["left"].concat(parts["right"])]

    assert_same(engine, build, draws(data, coordinates, "ab"), coordinates=coordinates)


@pytest.mark.law("Distinct is idempotent, and the counts of what it gives are one.")
@DIMENSIONS
@given(data=st.data())
def test_distinct_is_idempotent_and_its_counts_are_one(engine, coordinates, data):
    def build(a):
        return [a.distinct(), a.distinct().distinct(), a.distinct().threshold(lambda _row, n: n)]

    found = draws(data, coordinates, "a")
    assert_same(engine, build, found, coordinates=coordinates)
    assert assert_same(engine, lambda a: a.distinct().count("n").filter("n <> 1"), found, coordinates=coordinates) == []


@DIMENSIONS
@given(data=st.data())
def test_threshold_by_identity_is_nothing_done(engine, coordinates, data):
    assert_same(
        engine, lambda a: [a, a.threshold(lambda _row, n: n)], draws(data, coordinates, "a"), coordinates=coordinates
    )


@pytest.mark.law("The min of a concat is the min of the mins.")
@DIMENSIONS
@given(data=st.data())
def test_the_least_of_all_is_the_least_of_the_least(engine, coordinates, data):
    def build(a, b):
        def least(c):
            return c.group_by("k").agg(v=tm.min("v"))

        return [least(a.concat(b)), least(least(a).concat(least(b)))]

    assert_same(engine, build, draws(data, coordinates, "ab", non_negative=True), coordinates=coordinates)


@DIMENSIONS
@given(data=st.data())
def test_reduce_agrees_with_the_aggregates(engine, coordinates, data):
    def summed(key, rows):
        known = [(v, n) for (v,), n in rows if v is not None]
        total = sum(v * n for v, n in known) if known else None
        return [((*key, sum(n for _, n in rows), total), 1)]

    def build(a):
        schema = {"k": "int64", "n": "int64", "s": "int64"}
        return [a.group_by("k").agg(n=tm.count(), s=tm.sum("v")), a.group_by("k").reduce(summed, schema)]

    assert_same(engine, build, draws(data, coordinates, "a", non_negative=True), coordinates=coordinates)


@DIMENSIONS
@given(data=st.data())
def test_a_filtered_aggregate_is_the_aggregate_of_the_filtered(engine, coordinates, data):
    def build(a):
        return [
            a.agg(n=tm.count().filter("v > 0"), s=tm.sum("k").filter("v > 0")),
            a.filter("v > 0").agg(n=tm.count(), s=tm.sum("k")),
        ]

    assert_same(engine, build, draws(data, coordinates, "a"), coordinates=coordinates)


WIDE = {"f": "float64", "s": "string", "d": "decimal(6,2)", "b": "bool", "r": "binary", "y": "date", "t": "timestamp"}


@DIMENSIONS
@examples(20)
@given(data=st.data())
def test_values_of_every_type_are_grouped_as_they_are_told_apart(engine, coordinates, data):
    """NULL equals NULL, NaN equals NaN, -0.0 equals 0.0: for distinct, grouping, arranging and joins of nulls alike."""
    found = {"a": data.draw(updates(WIDE, coordinates, non_negative=True))}

    def build(a):
        once = a.group_by(*WIDE).agg(n=tm.count()).select(*WIDE)
        paired = a.distinct().join(
            a.select(**{f"{n}2": n for n in WIDE}), on={n: f"{n}2" for n in WIDE}, nulls_equal=True
        )
        return [a.distinct(), once, paired.distinct()]

    assert_same(engine, build, found, coordinates=coordinates, schema={"a": WIDE})
