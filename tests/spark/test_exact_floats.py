"""Sums of floats in Catalyst: exact and rounded once, as the reference engine has them; the kernels where it cannot."""

import datetime as dt
import logging
import math
import random
from fractions import Fraction

import pytest
from elsewhere import fetching_at_most
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from running import examples

import tidemill as tm
from tidemill.renderer.spark import few_groups
from tidemill.renderer.spark.exact_floats import FIVE, THREE, Limbs
from tidemill.testing import all_at_once, check_equivalent

KX = {"k": "int64", "x": "float64"}
SUMS = {"s": tm.sum("x"), "m": tm.avg("x"), "c": tm.count("x"), "n": tm.count()}
SPREADS = {"v": tm.variance("x"), "e": tm.stddev("x"), "m": tm.avg("x"), "n": tm.count("x")}


def scaled(mantissa, exponent):
    return math.ldexp(mantissa, exponent)


def held_by(limbs):
    """Floats that have no bits but where the limbs are: from 2**56 times the first unit down to the last."""
    low, high = limbs.units[-1], limbs.first + 56
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
    return st.lists(st.lists(st.tuples(held_by(limbs), st.sampled_from([1, 1, 1, -1, 2, 20])), max_size=7), max_size=60)


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


def summed_by(limbs, spark, groups):
    lines = [(g, x and x + 0.0, n) for g, group in enumerate(groups) for x, n in [*group, (0.0, 1), (None, 1)]]
    data, amounts = limbs.split(spark.createDataFrame(lines, "g int, c0 double, d bigint"), {0: True})
    sums = data.groupBy("g").agg(*(F.sum(F.expr(text) * F.col("d")).alias(name) for name, text in amounts[0].items()))
    sums, rounded_sums = limbs.rounded(sums, [0])
    return {r.g: r.s for r in sums.selectExpr("g", f"{rounded_sums[0]} AS s").collect()}


@pytest.mark.parametrize("limbs", [THREE, FIVE], ids=["three limbs", "five limbs"])
@examples(6)
@given(data=st.data())
def test_sums_are_exact_and_rounded_once(spark, limbs, data):
    groups = [*close(limbs.units[-1], limbs.first + 55), *data.draw(groups_of(limbs))]
    found = summed_by(limbs, spark, groups)
    expected = {g: rounded(group) for g, group in enumerate(groups)}
    assert {g: s.hex() for g, s in found.items()} == {g: (s + 0.0).hex() for g, s in expected.items()}


@examples(6)
@given(data=st.data())
def test_variances_are_exact_and_rounded_once(spark, data):
    flow = tm.Dataflow("spreads")
    flow.output("out", flow.input("rows", KX).group_by("k").agg(v=tm.variance("x"), e=tm.stddev("x")))
    groups = [[(x, abs(n)) for x, n in group if abs(x) < 2.0**31] for group in data.draw(groups_of(Limbs(-25, 13, 4)))]
    groups += [[(1e9 + 0.01, 1), (1e9 + 0.02, 1)], [(0.1, 3)], [(2.0**31 - 1, 1000), (-(2.0**-64), 1000)], [(5.0, 1)]]
    lines = [(g, x, 0, n) for g, group in enumerate(groups) for x, n in group]
    found = tm.render(
        flow, spark, {"rows": spark.createDataFrame(lines, "k bigint, x double, time bigint, diff bigint")}
    )
    expected: dict[int, tuple[float | None, float | None]] = {}
    for g, group in enumerate(groups):
        count = sum(n for _, n in group)
        if count > 1:
            total = sum(Fraction(x) * n for x, n in group)
            squares = sum(Fraction(x) ** 2 * n for x, n in group)
            variance = float((squares * count - total**2) / (count * (count - 1)))
            expected[g] = (variance, math.sqrt(variance))
        elif count:
            expected[g] = (None, None)
    assert {r.k: (r.v, r.e) for r in found["out"].collect()} == expected


def test_variances_are_of_sums_made_by_spark(spark):
    flow = tm.Dataflow("spreads")
    flow.output("o", flow.input("rows", KX).group_by("k").agg(v=tm.variance("x")))
    assert "square1_5" in flow.explain(spark=spark)


def flow_of_sums():
    flow = tm.Dataflow("sums")
    rows = flow.input("rows", KX)
    flow.output("by key", rows.group_by("k").agg(**SUMS))
    flow.output("all", rows.agg(**SUMS))
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


LONG, KERNELS = "floats in more limbs", "floats added up by the kernels"
CASES = {
    "three limbs": (ORDINARY, []),
    "five limbs": ([*ORDINARY, *FAR_APART], [LONG]),
    "kernels": ([*ORDINARY, *EXTRAORDINARY], [LONG, KERNELS]),
}


@pytest.mark.parametrize(("values", "tries"), CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("latest", [1, 3])
def test_updates_are_those_of_the_reference_engine(spark, caplog, values, tries, latest):
    caplog.set_level(logging.INFO, "tidemill.spark")
    engines = ["reference", "spark"]
    check_equivalent(flow_of_sums(), {"rows": history(values, latest)}, engines=engines, batchings=[all_at_once])
    again = [r.getMessage() for r in caplog.records if "tried again" in r.getMessage()]
    assert [text.split(", ")[1].split(":")[0] for text in again] == tries


@pytest.mark.parametrize("updates", [[], [((1, 0.5), 0, 1)], [((1, 0.5), 4, 1)], [((2, 0.5), 4, 1), ((2, 0.5), 4, -1)]])
def test_the_group_without_keys_has_a_row_at_the_least_time(spark, updates):
    check_equivalent(flow_of_sums(), {"rows": updates}, engines=["reference", "spark"], batchings=[all_at_once])


@pytest.mark.parametrize("size", [2.0**41, 2.0**69], ids=["of three", "of five"])
def test_limbs_that_overflow_are_added_up_in_more_or_by_the_kernels(spark, size):
    updates = [((1, size), 0, 1 << 30), ((1, size), 0, 1 << 29), ((1, 0.1), 0, 1)]
    check_equivalent(flow_of_sums(), {"rows": updates}, engines=["reference", "spark"], batchings=[all_at_once])


def sums_by_key():
    flow = tm.Dataflow("sums")
    flow.output("by key", flow.input("rows", KX).group_by("k").agg(**SUMS))
    return flow


@pytest.mark.parametrize("few", [0, 1], ids=["by Spark", "by the driver"])
def test_a_sum_too_long_for_a_decimal_is_rounded_by_the_driver_or_added_up_in_more_limbs(
    spark, caplog, monkeypatch, few
):
    monkeypatch.setattr(few_groups, "FEW", few)
    caplog.set_level(logging.INFO, "tidemill.spark")
    data = spark.sql("SELECT CAST(1 AS bigint) k, 4e12D x FROM range(100)")
    found = tm.render(sums_by_key(), spark, {"rows": data})["by key"]
    assert [tuple(row) for row in found.collect()] == [(1, 4e14, 4e12, 100, 100, 0, 1)]
    assert len([r.getMessage() for r in caplog.records if LONG in r.getMessage()]) == 1 - few


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


@pytest.mark.parametrize("few", [3, 1000], ids=["of some groups", "of all groups"])
@pytest.mark.parametrize("counts", [(1,), (1, 1, 2, -1)], ids=["rows", "with counts"])
@examples(4)
@given(data=st.data())
def test_what_the_driver_finishes_is_what_the_reference_engine_has(spark, few, counts, data):
    rows = data.draw(st.lists(st.tuples(ROWS_OF_ALL_KINDS, st.sampled_from(counts)), max_size=12))
    flow = flow_of_mixtures()
    names = [*MIXED, *(["diff"] if len(counts) > 1 else [])]
    lines = [row if len(counts) == 1 else (*row, n) for row, n in rows if n > 0 or (row, 2) in rows]
    kinds = "k bigint, x double, i bigint, b boolean, d date, w timestamp_ntz" + ", diff bigint" * (len(counts) > 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(few_groups, "FEW", few)
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


def test_sums_of_few_groups_are_read_without_a_job(spark):
    data = spark.sql("SELECT id % 10 k, id / 10D x FROM range(1000)")
    found = tm.render(sums_by_key(), spark, {"rows": data})["by key"]
    before = len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))
    assert len(found.collect()) == 10
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(None)) == before


@pytest.fixture
def many_partitions(spark):
    settings = {
        "spark.sql.shuffle.partitions": "12",
        "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1",
    }
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.usefixtures("many_partitions")
def test_few_groups_in_many_partitions_are_read_by_some_jobs(spark):
    data = spark.sql("SELECT id % 100 k, id / 10D x FROM range(1000)")
    tracker = spark.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup(None))
    found = tm.render(sums_by_key(), spark, {"rows": data})["by key"]
    assert len(tracker.getJobIdsForGroup(None)) - before <= 5, "a shuffle, and partitions by more and more at once"
    assert {row.k: row.s for row in found.collect()} == {k: sum(range(k, 1000, 100)) / 10 for k in range(100)}


def test_many_groups_are_not_fetched_and_shuffled_once(spark, monkeypatch):
    """The rows go through Spark once: a second time would be another shuffle's stage."""
    monkeypatch.setattr(few_groups, "FEW", 5)
    data = spark.sql("SELECT id % 10 k, id / 10D x FROM range(1000)")
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    found = tm.render(sums_by_key(), spark, {"rows": data})["by key"]
    jobs = [tracker.getJobInfo(job) for job in set(tracker.getJobIdsForGroup(None)) - before]
    done = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
    assert sum(stage.numCompletedTasks for stage in done if stage and stage.numTasks == 2) <= 2
    assert {row.k: row.s for row in found.collect()} == {k: sum(range(k, 1000, 10)) / 10 for k in range(10)}


def test_groups_whose_keys_are_too_long_to_be_fetched_are_finished_by_spark(spark):
    flow = tm.Dataflow()
    flow.output("sums", flow.input("rows", {"k": "string", "x": "float64"}).group_by("k").agg(s=tm.sum("x")))
    one, other = (random.Random(seed).randbytes(200_000).hex() for seed in range(2))  # which Spark cannot make short
    rows = spark.createDataFrame([(one, 0.1), (one, 0.2), (other, 0.5)], "k string, x double")
    with fetching_at_most(spark, "100k"):
        found = tm.render(flow, spark, {"rows": rows})["sums"]
    assert {row.k: row.s for row in found.collect()} == {one: 0.1 + 0.2, other: 0.5}


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


def test_sums_of_floats_are_planned_by_spark(spark):
    flow = tm.Dataflow("sums")
    flow.output("o", flow.input("rows", KX).group_by("k").agg(**SUMS))
    plan = flow.explain(spark=spark)
    assert "run(" not in plan
    assert "limb1_2" in plan
