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
from tidemill.renderer.spark.exact_floats import FAR, NEAR, Limbs
from tidemill.renderer.spark.exact_parts import cut
from tidemill.renderer.spark.exact_squares import FARTHER, NEAREST, Squared, with_floats
from tidemill.renderer.spark.native import selected
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


def groups_of(limbs, high=None):
    held = held_by(limbs, limbs.first + limbs.room if high is None else high)
    return st.lists(st.lists(st.tuples(held, st.sampled_from([1, 1, 1, -1, 2, 20])), max_size=7), max_size=60)


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


def summed_by(limbs, spark, groups, *, in_floats):
    """Return groups' sums; those of rows that are there once, or with counts."""
    counted = [(g, x, n) for g, group in enumerate(groups) for x, n in [*group, (0.0, 1), (None, 1)]]
    lines = [(g, x and x + 0.0, n) for g, x, n in counted]
    data = spark.createDataFrame(lines, "g int, c0 double, d bigint")
    selects, texts = cut({"part": limbs.chain("coalesce(c0, 0D)")})
    parts = limbs.parts(0, texts["part"]).items()
    times = "" if in_floats else " * d"
    sums = [F.expr(part.sum(in_floats=in_floats, times=times)).alias(name) for name, part in parts]
    sums = with_floats(selected(data, selects).groupBy("g").agg(*sums), [0], limbs, [])
    lines = sums.selectExpr("g", "total0", f"{limbs.as_decimal(0) or 'total0'} AS s").collect()
    assert all(line.s == line.total0 for line in lines)
    return {line.g: line.s for line in lines}


def one_by_one(group):
    """Return a group whose rows are there once, as often as they are counted, up to some times."""
    return [(x, 1) for x, n in group for _ in range(min(n, 20))]


WAYS = {"near": (NEAR, False), "near, in floats": (NEAR, True), "far": (FAR, False)}


@pytest.mark.parametrize(("limbs", "in_floats"), WAYS.values(), ids=WAYS.keys())
@examples(6)
@given(data=st.data())
def test_sums_are_exact_and_rounded_once(spark, limbs, in_floats, data):
    high = limbs.first + limbs.room if limbs is FAR else limbs.units[-1] + 125 - 8  # of decimals
    groups = [*close(limbs.units[-1], high - 1), *data.draw(groups_of(limbs, high))]
    groups = [one_by_one(group) for group in groups] if in_floats else groups
    found = summed_by(limbs, spark, groups, in_floats=in_floats)
    expected = {g: rounded(group) for g, group in enumerate(groups)}
    assert {g: s.hex() for g, s in found.items()} == {g: (s + 0.0).hex() for g, s in expected.items()}


def squares_by(squared, spark, groups, *, in_floats):
    """Return the sums that groups' limbs and squares come to, and counts."""
    lines = [(g, x + 0.0, n) for g, group in enumerate(groups) for x, n in group]
    data = spark.createDataFrame(lines, "g int, c0 double, d bigint")
    selects, texts = cut({"part": squared.limbs.chain("c0"), **squared.chains(0)})
    data = selected(data, [*squared.selects({0: "c0"}), *selects])
    parts = squared.limbs.parts(0, texts["part"]) | squared.parts(0, texts)
    times = "" if in_floats else " * d"
    sums = [F.expr(part.sum(in_floats=in_floats, times=times)).alias(name) for name, part in parts.items()]
    lines = data.groupBy("g").agg(*sums, F.sum("d").alias("n")).collect()
    names = squared.limbs.names(0), squared.names(0)
    return {line.g: (*([line[n] for n in some] for some in names), line.n) for line in lines}


SQUARES = {
    "near": (NEAREST.squared, False),
    "near, in floats": (NEAREST.squared, True),
    "far": (FARTHER.squared, False),
    "few bits": (Squared(Limbs(10, 20, 3, room=20)), True),
}


@pytest.mark.parametrize(("squared", "in_floats"), SQUARES.values(), ids=SQUARES.keys())
@examples(6)
@given(data=st.data())
def test_sums_of_squares_are_exact(spark, squared, in_floats, data):
    high, low = squared.limbs.first + squared.limbs.room, squared.limbs.units[-1]
    drawn = data.draw(groups_of(squared.limbs))
    groups = [[(math.nextafter(2.0**high, 0), 3), (scaled(1, low), 1), (scaled(-1, high - 1), 2)], *drawn]
    groups = [group for group in groups if group]
    groups = [one_by_one(group) or [(0.0, 1)] for group in groups] if in_floats else groups
    groups = [[(x, n) for x, n in group if Fraction(x) % Fraction(2) ** low == 0] or [(0.0, 1)] for group in groups]
    for g, (limbs, places, count) in squares_by(squared, spark, groups, in_floats=in_floats).items():
        total = sum(Fraction(x) * n for x, n in groups[g])
        of_squares = sum(Fraction(x) ** 2 * n for x, n in groups[g])
        assert squared.limbs.whole(limbs) == total * 2**-low
        assert squared.limbs.whole(places) == of_squares * 2 ** -squared.units[-1]
        if count > 1:
            variance = (of_squares * count - total**2) / (count * (count - 1))
            assert squared.variance([*limbs, *places, count]) == float(variance)
        elif count == 1:
            assert squared.variance([*limbs, *places, count]) is None


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
    groups = [[(x, abs(n)) for x, n in group if abs(x) < 2.0**31] for group in data.draw(groups_of(Limbs(-20, 13, 4)))]
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
    assert "square1_5" in flow.explain(spark=spark)


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


@pytest.mark.parametrize("few", [0, 1000], ids=["by Spark", "by the driver"])
def test_more_rows_of_a_group_than_add_up_as_floats_are_added_up_in_whole_numbers(spark, caplog, monkeypatch, few):
    monkeypatch.setattr(few_groups, "FEW", few)
    monkeypatch.setattr(Limbs, "most_rows", 3)
    caplog.set_level(logging.INFO, "tidemill.spark")
    flow = tm.Dataflow("sums")
    rows = flow.input("rows", KX)
    flow.output("out", rows.group_by("k").agg(**SUMS, v=tm.variance("x")))
    for many, tries in ((3, 0), (4, 1)):
        caplog.clear()
        values = [(1, 0.1 * i) for i in range(many)] + [(2, None)] * 9
        data = spark.createDataFrame(values, "k bigint, x double")
        found = tm.render(flow, spark, {"rows": data})["out"]
        with flow.start(tm.Reference()) as run:
            run.insert("rows", values)
            run.close_inputs()
            assert sorted(tuple(r)[:-2] for r in found.collect()) == sorted(run.snapshot("out"))
        assert len([r for r in caplog.records if LONG in r.getMessage()]) == tries


LONG, KERNELS = "floats in more limbs", "floats added up by the kernels"
CASES = {
    "near": (ORDINARY, True, []),
    "far": ([*ORDINARY, 2.0**-80, -(2.0**37)], True, [LONG]),
    "far, without squares": ([*ORDINARY, *FAR_APART], False, [LONG]),
    "kernels": ([*ORDINARY, *EXTRAORDINARY], True, [LONG, KERNELS]),
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


@pytest.mark.parametrize("few", [0, 1000], ids=["by Spark", "by the driver"])
def test_averages_of_nothing_but_zeros_have_no_sign(spark, monkeypatch, few):
    monkeypatch.setattr(few_groups, "FEW", few)
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
    assert "limb1_2" in plan
