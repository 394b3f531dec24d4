"""Sums of floats in Catalyst: exact and rounded once, as the reference engine has them; the kernels where it cannot."""

import datetime as dt
import logging
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from support.running import examples

import tidemill as tm
from tidemill.renderer.spark.exact_floats import (
    SQUARES,
    SUMMED,
    WITH_SQUARES,
    selected_squares,
    sums_of_squares,
    with_spreads,
)
from tidemill.testing import all_at_once, check_equivalent

KX = {"k": "int64", "x": "float64"}
SUMS = {"s": tm.sum("x"), "m": tm.avg("x"), "c": tm.count("x"), "n": tm.count()}
SPREADS = {"v": tm.variance("x"), "e": tm.stddev("x"), "m": tm.avg("x"), "n": tm.count("x")}


def scaled(mantissa, exponent):
    return math.ldexp(mantissa, exponent)


def held_by(limbs, high):
    """Floats that have no bits but where the limbs are, from 2**high down to the last unit."""
    low = limbs.units[-1]
    return st.one_of(
        st.floats(-(2.0**high), 2.0**high, exclude_min=True, exclude_max=True).filter(
            lambda x: x == 0 or abs(x) > scaled(1, low + 54)
        ),
        st.integers(-1000, 1000).map(lambda cents: cents / 100),
        st.builds(scaled, st.integers(-(2**53), 2**53), st.integers(low, high - 54)),
        st.builds(scaled, st.sampled_from([1, -1]), st.integers(low, high - 1)),  # powers of two: ties, and far below
        st.sampled_from([0.0, -0.0, 1 + 2.0**-52, 0.1, -0.1, scaled(1, high - 1), scaled(-1, high - 1)]),
    )


def groups_of(limbs):
    lines = st.tuples(held_by(limbs, limbs.high), st.sampled_from([1, 1, 1, -1, 2, 20]))
    return st.lists(st.lists(lines, max_size=7), max_size=60)


def close(low, high):
    """Return groups that come to what is halfway between two floats; a bit below, and a bit above."""
    bit = scaled(1, low)
    return [
        [(scaled(1, low + 70), 1), (scaled(1, low + 17), 1)],
        [(scaled(1, low + 70), 1), (scaled(1, low + 17), 1), (bit, 1)],
        [(scaled(1, low + 70), 1), (scaled(1, low + 17), 1), (bit, -1)],
        [(scaled(2**52 + 1, low + 18), 1), (scaled(1, low + 17), 1)],
        [(scaled(-1, low + 70), 1), (scaled(-1, low + 17), 1), (bit, -1)],
        [(scaled(1, high), 1), (bit, 1), (scaled(1, high), -1)],
        [(scaled(1, high), 7), (bit, -1)],
        [(bit, 1)],
        [(bit, -1)],
        [(0.1, 1 << 26)],
        [],
    ]


def rounded(group):
    return float(sum((Fraction(x) * n for x, n in group), Fraction()))


def summed_by(limbs, spark, groups, *more):
    """Return lines of the sums of groups' limbs, and of what else is selected and added up."""
    lines = [(g, x and x + 0.0, n) for g, group in enumerate(groups) for x, n in [*group, (0.0, 1), (None, 1)]]
    data = spark.createDataFrame(lines, "g int, c0 double, d bigint")
    selects, sums = limbs.selected("c0", "coalesce(c0, 0D)"), limbs.sums("c0", "d")
    for made, added in more:
        selects, sums = selects + made, sums | added
    return data.selectExpr("*", *selects).groupBy("g").agg(*(F.expr(s).alias(n) for n, s in sums.items()))


@examples(8)
@given(drawn=groups_of(SUMMED))
def test_sums_are_exact_and_rounded_once(spark, drawn):
    held = [[(x, n) for x, n in group if abs(x) < 2.0**38] for group in drawn]  # so that decimals hold the sums
    groups = [*close(SUMMED.units[-1], 41), *held]
    lines = summed_by(SUMMED, spark, groups).selectExpr("g", f"{SUMMED.as_decimal('c0')} AS s").collect()
    expected = {g: rounded(group) + 0.0 for g, group in enumerate(groups)}
    assert {line.g: line.s.hex() for line in lines} == {g: s.hex() for g, s in expected.items()}


@examples(8)
@given(drawn=groups_of(WITH_SQUARES))
def test_sums_of_squares_are_exact(spark, drawn):
    low, bit = WITH_SQUARES.units[-1], Fraction(2) ** WITH_SQUARES.units[-1]
    largest = [(math.nextafter(2.0**WITH_SQUARES.high, 0), 3), (scaled(1, low), 1), (scaled(-1, 37), 2)]
    groups = [[(x, n) for x, n in group if Fraction(x) % bit == 0] for group in [largest, *drawn]]
    squares = selected_squares("c0", "coalesce(c0, 0D)"), sums_of_squares("c0", "d")
    lines = summed_by(WITH_SQUARES, spark, groups, squares).withColumn("n0", F.lit(7).cast("bigint"))
    for line in with_spreads(lines, [0], [0]).collect():
        total = sum((Fraction(x) * n for x, n in groups[line.g]), Fraction())
        of_squares = sum((Fraction(x) ** 2 * n for x, n in groups[line.g]), Fraction())
        assert WITH_SQUARES.whole(line[name] for name in WITH_SQUARES.names("c0")) == total / bit
        assert SQUARES.whole(line[name] for name in SQUARES.names("c0_square")) == of_squares / bit**2
        assert line.total0 == float(total)
        assert line.v0 == float((of_squares * 7 - total**2) / 42)


def one_by_one(group):
    """Return a group whose rows are there once, as often as they are counted, up to some times."""
    return [(x, 1) for x, n in group for _ in range(min(n, 20))]


def near(middle, exponent):
    """Values so close to each other that errors of 2**-100 are in the digits of their variance."""
    return st.integers(-1000, 1000).map(lambda i: middle + scaled(i, exponent))


CLOSE = [near(0.6, -40), near(1000.1, -30), near(-(2.0**20) - 0.1, -12), st.integers(0, 2**27 - 1).map(float)]


@pytest.mark.parametrize("counted", [False, True], ids=["rows", "with counts"])
@examples(6)
@given(data=st.data())
def test_variances_are_exact_and_rounded_once(spark, counted, data):
    flow = tm.Dataflow("spreads")
    flow.output("out", flow.input("rows", KX).group_by("k").agg(v=tm.variance("x"), e=tm.stddev("x")))
    groups = [[(x, abs(n)) for x, n in group] for group in data.draw(groups_of(WITH_SQUARES))]
    groups += [[(1e8 + 0.01, 1), (1e8 + 0.02, 1)], [(0.1, 3)], [(2.0**30 - 1, 1000), (-(2.0**-63), 1000)], [(5.0, 1)]]
    groups += [[(x, 1) for x in data.draw(st.lists(values, min_size=2, max_size=9))] for values in CLOSE]
    groups += [[(134217727.0, 1), (0.0, 1)], [(0.1, 2), (math.nextafter(0.1, 1), 1)], [(9.99, 7)]]
    lines = [(g, x) if not counted else (g, x, 0, n) for g, group in enumerate(groups) for x, n in one_by_one(group)]
    names = "k bigint, x double" + ", time bigint, diff bigint" * counted
    found = tm.render(flow, spark, {"rows": spark.createDataFrame(lines, names)})
    expected: dict[int, tuple[float | None, float | None]] = {}
    for g, group in enumerate(map(one_by_one, groups)):
        count = len(group)
        if count > 1:
            total = sum(Fraction(x) for x, _ in group)
            squares = sum(Fraction(x) ** 2 for x, _ in group)
            variance = float((squares * count - total**2) / (count * (count - 1)))
            expected[g] = (variance, math.sqrt(variance))
        elif count:
            expected[g] = (None, None)
    assert {r.k: (r.v, r.e) for r in found["out"].collect()} == expected


def test_variances_are_of_sums_made_by_spark(spark):
    flow = tm.Dataflow("spreads")
    flow.output("o", flow.input("rows", KX).group_by("k").agg(v=tm.variance("x")))
    assert "square_limb5" in flow.explain(spark=spark)


def flow_of_sums(*, spreads=True):
    flow = tm.Dataflow("sums")
    rows = flow.input("rows", KX)
    flow.output("by key", rows.group_by("k").agg(**SUMS))
    flow.output("all", rows.agg(**SUMS))
    if spreads:
        flow.output("spreads", rows.group_by("k").agg(**SPREADS))
        flow.output("spreads of all", rows.agg(**SPREADS))
    flow.output("some", rows.filter("k = 1").agg(s=tm.sum("x"), b=tm.bool_or("x > 1")))
    return flow


def flow_of_variants():
    flow = tm.Dataflow("sums")
    rows = flow.input("rows", {"k": "int64", "x": "float64"})
    flow.output("by key", rows.group_by("k").agg(**SUMS))
    flow.output("taken away", rows.negate().group_by("k").agg(**SUMS))
    flow.output("twice", rows.concat(rows).filter("x > 0").group_by("k").agg(**SUMS))
    return flow


ORDINARY = [0.1, 0.2, -0.3, 12.34, 1e9, -1e9, 2.0**-60, 1.0, 0.0, -0.0, None]
FAR_APART = [1e15, -1e15, 2.0**53, 2.0**-100]
EXTRAORDINARY = [math.nan, math.inf, -math.inf, 5e-324, 1e308, 2.0**70, -(2.0**-125)]


def history(values, latest):
    """Each value comes to two keys, at several times, and half of them leave again."""
    given = [((k, x), (i + k) % latest, 1 + k) for k in (0, 1, 2) for i, x in enumerate(values) if k != 1 or i % 2]
    return given + [((k, x), latest + 1, -n) for (k, x), _, n in given[::2]]


KERNELS = "floats added up by the kernels"
CASES = {
    "near": (ORDINARY, True, []),
    "far for squares": ([*ORDINARY, 2.0**-80, -(2.0**39)], True, [KERNELS]),
    "far": ([*ORDINARY, *FAR_APART], False, [KERNELS]),
    "extraordinary": ([*ORDINARY, *EXTRAORDINARY], True, [KERNELS]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("latest", [1, 3])
def test_updates_are_those_of_the_reference_engine(spark, caplog, case, latest):
    values, spreads, tries = case
    caplog.set_level(logging.INFO, "tidemill.spark")
    engines = ["reference", "spark"]
    flow = flow_of_sums(spreads=spreads)
    check_equivalent(flow, {"rows": history(values, latest)}, engines=engines, batchings=[all_at_once])
    again = [r.getMessage() for r in caplog.records if "tried again" in r.getMessage()]
    assert [text.split(", ")[1].split(":")[0] for text in again] == tries


@pytest.mark.parametrize("updates", [[], [((1, 0.5), 0, 1)], [((1, 0.5), 4, 1)], [((2, 0.5), 4, 1), ((2, 0.5), 4, -1)]])
def test_the_group_without_keys_has_a_row_at_the_least_time(spark, updates):
    check_equivalent(flow_of_sums(), {"rows": updates}, engines=["reference", "spark"], batchings=[all_at_once])


@pytest.mark.parametrize("size", [2.0**41, 2.0**69], ids=["near", "far"])
def test_limbs_that_overflow_are_added_up_by_the_kernels(spark, size):
    updates = [((1, size), 0, 1 << 30), ((1, size), 0, 1 << 29), ((1, 0.1), 0, 1)]
    check_equivalent(flow_of_sums(), {"rows": updates}, engines=["reference", "spark"], batchings=[all_at_once])


def sums_by_key():
    flow = tm.Dataflow("sums")
    flow.output("by key", flow.input("rows", KX).group_by("k").agg(**SUMS))
    return flow


def test_a_sum_too_long_for_a_decimal_is_added_up_by_the_kernels(spark, caplog):
    caplog.set_level(logging.INFO, "tidemill.spark")
    data = spark.sql("SELECT CAST(1 AS bigint) k, 4e12D x FROM range(100)")
    found = tm.render(sums_by_key(), spark, {"rows": data})["by key"]
    assert [tuple(row) for row in found.collect()] == [(1, 4e14, 4e12, 100, 100, 0, 1)]
    assert len([r.getMessage() for r in caplog.records if KERNELS in r.getMessage()]) == 1


def test_averages_of_nothing_but_zeros_have_no_sign(spark):
    flow = tm.Dataflow("zeros")
    rows = flow.input("rows", {"k": "int64", "x": "float64", "i": "int64"}).negate()
    flow.output("means", rows.group_by("k").agg(x=tm.avg("x"), i=tm.avg("i"), s=tm.sum("x")))
    given = [(1, 0.0, 0), (2, -0.0, 0), (3, 1.5, 1), (3, -1.5, -1)]
    data = spark.createDataFrame(given, "k bigint, x double, i bigint")
    found = tm.render(flow, spark, {"rows": data})["means"].collect()
    with flow.start(tm.Reference()) as run:
        run.insert("rows", given)
        run.close_inputs()
        assert sorted(map(repr, map(tuple, found))) == sorted(repr((*row, 0, 1)) for row in run.snapshot("means"))
    assert {repr(tuple(row)[1:4]) for row in found} == {"(0.0, 0.0, 0.0)"}


def flow_of_mixtures():
    """Aggregates of floats beside others, with all kinds of keys, for users' names of times and diffs."""
    flow = tm.Dataflow("mixtures")
    rows = flow.input("rows", MIXED)
    every = {"e": tm.stddev("x"), "s": tm.sum("x"), "t": tm.sum("i"), "m": tm.avg("i"), "some": tm.bool_or("b")}
    every |= {"all": tm.bool_and("b"), "low": tm.min("d"), "high": tm.max("w"), "c": tm.count("x"), "n": tm.count()}
    flow.output("by key", rows.group_by("k").agg(**every))
    flow.output("by two", rows.group_by("w", "d").agg(a=tm.avg("x"), v=tm.variance("x"), t=tm.sum("i")))
    every.pop("low"), every.pop("high")
    flow.output("all", rows.agg(**every))
    return flow


MIXED = {"k": "int64", "x": "float64", "i": "int64", "b": "bool", "d": "date", "w": "timestamp"}
DAYS = [None, dt.date(1, 1, 1), dt.date(2026, 2, 28)]
MOMENTS = [None, dt.datetime(2026, 3, 29, 2, 30), dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]
ROWS_OF_ALL_KINDS = st.tuples(
    st.sampled_from([None, 1, 2, 3]),
    st.none() | st.integers(-1000, 1000).map(lambda cents: cents / 100),
    st.none() | st.integers(-(2**60), 2**60),
    st.sampled_from([None, True, False]),
    st.sampled_from(DAYS),
    st.sampled_from(MOMENTS),
)


@pytest.mark.parametrize("counts", [(1,), (1, 1, 2, -1)], ids=["rows", "with counts"])
@examples(4)
@given(data=st.data())
def test_mixtures_are_what_the_reference_engine_has(spark, counts, data):
    rows = data.draw(st.lists(st.tuples(ROWS_OF_ALL_KINDS, st.sampled_from(counts)), max_size=12))
    flow = flow_of_mixtures()
    names = [*MIXED, *(["diff"] if len(counts) > 1 else [])]
    lines = [row if len(counts) == 1 else (*row, n) for row, n in rows if n > 0 or (row, 2) in rows]
    kinds = "k bigint, x double, i bigint, b boolean, d date, w timestamp_ntz" + ", diff bigint" * (len(counts) > 1)
    frames = tm.render(flow, spark, {"rows": spark.createDataFrame(lines, kinds)}, time="at")
    with flow_of_mixtures().start(tm.Reference()) as run:
        run.update(
            "rows", [(line[: len(MIXED)], 0, line[len(MIXED)] if len(line) > len(MIXED) else 1) for line in lines]
        )
        run.close_inputs()
        for name, frame in frames.items():
            assert frame.columns[-2:] == ["at", "diff"], names
            found = sorted(map(repr, map(tuple, frame.collect())))
            assert found == sorted(repr((*row, 0, 1)) for row in run.snapshot(name))


def test_sums_are_worked_out_once(spark):
    data = spark.sql("SELECT id % 10 k, id / 10D x FROM range(1000)")
    tracker = spark.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup(None))
    found = tm.render(sums_by_key(), spark, {"rows": data})["by key"]
    assert {row.k: row.s for row in found.collect()} == {k: sum(range(k, 1000, 10)) / 10 for k in range(10)}
    assert len(tracker.getJobIdsForGroup(None)) - before <= 3, "a shuffle, the sums, and what is read"


def test_rows_without_counts_are_added_up_like_those_with_counts(spark):
    values = [(1, 0.1), (1, 0.2), (1, 0.2), (2, None), (2, -0.3)]
    rows = spark.createDataFrame(values, "k bigint, x double")
    counted = rows.selectExpr("*", "CAST(1 AS bigint) AS diff")
    found = [
        {
            name: sorted(map(tuple, data.collect()))
            for name, data in tm.render(flow_of_variants(), spark, {"rows": given}).items()
        }
        for given in (rows, counted)
    ]
    assert found[0] == found[1]
    assert found[0]["by key"] == [(1, 0.5, 0.5 / 3, 3, 3, 0, 1), (2, -0.3, -0.3, 1, 2, 0, 1)]


def test_names_may_have_braces(spark):
    flow = tm.Dataflow("{a}")
    rows = flow.input("{rows}", {"k": "int64", "a {b}": "float64"})
    flow.output("o", rows.group_by("k").agg(s=tm.sum("a {b}")))
    data = spark.createDataFrame([(1, 0.1), (1, 0.2)], "k bigint, `a {b}` double")
    assert [tuple(r)[:2] for r in tm.render(flow, spark, {"{rows}": data})["o"].collect()] == [(1, 0.1 + 0.2)]


def test_sums_of_floats_are_planned_by_spark(spark):
    flow = tm.Dataflow("sums")
    flow.output("o", flow.input("rows", KX).group_by("k").agg(**SUMS))
    plan = flow.explain(spark=spark)
    assert "run(" not in plan
    assert "c1_limb2" in plan
