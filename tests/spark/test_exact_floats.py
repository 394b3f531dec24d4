"""Sums of floats in Catalyst: exact and rounded once, as the reference engine has them; the kernels where it cannot."""

import logging
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from running import examples

import tidemill as tm
from tidemill.renderer.spark import exact_floats
from tidemill.testing import all_at_once, check_equivalent

KX = {"k": "int64", "x": "float64"}
SUMS = {"s": tm.sum("x"), "m": tm.avg("x"), "c": tm.count("x"), "n": tm.count()}


def scaled(mantissa, exponent):
    return math.ldexp(mantissa, exponent)


FLOATS = st.one_of(
    st.floats(-1e20, 1e20).filter(lambda x: x == 0 or abs(x) > 2.0**-70),
    st.integers(-1000, 1000).map(lambda cents: cents / 100),
    st.builds(scaled, st.integers(-(2**53), 2**53), st.integers(-124, 16)),
    st.builds(scaled, st.sampled_from([1, -1]), st.integers(-124, 69)),  # powers of two: ties, and a bit far below
    st.sampled_from([0.0, -0.0, 1 + 2.0**-52, 2.0**53, 2.0**53 + 2, 0.1, -0.1, 1e20, -1e20]),
)
GROUPS = st.lists(st.lists(st.tuples(FLOATS, st.sampled_from([1, 1, 1, -1, 2, 1000])), max_size=7), max_size=60)
CLOSE = [  # halfway between two floats; a bit below, and a bit above
    [(2.0**53, 1), (1.0, 1)],
    [(2.0**53, 1), (1.0, 1), (2.0**-100, 1)],
    [(2.0**53, 1), (1.0, 1), (-(2.0**-100), 1)],
    [(2.0**53 + 2, 1), (1.0, 1)],
    [(-(2.0**53), 1), (-1.0, 1), (2.0**-124, -1)],
    [(1e20, 1), (2.0**-124, 1), (1e20, -1)],
    [(2.0**-124, 1)],
    [(2.0**-124, -1)],
    [(0.1, 1 << 26)],
    [],
]


def rounded(group):
    return float(sum((Fraction(x) * n for x, n in group), Fraction()))


@examples(6)
@given(groups=GROUPS)
def test_sums_are_exact_and_rounded_once(spark, groups):
    groups = [*CLOSE, *groups]
    lines = [(g, x + 0.0, n) for g, group in enumerate(groups) for x, n in [*group, (0.0, 1)]]
    data = exact_floats.with_limbs(spark.createDataFrame(lines, "g int, c0 double, d bigint"), [0])
    limbs = [exact_floats.limb(0, i) for i in range(exact_floats.LIMBS)]
    sums = data.groupBy("g").agg(*(F.sum(F.col(name) * F.col("d")).alias(name) for name in limbs))
    found = {r.g: r.s for r in exact_floats.with_rounded_sums(sums, {0: "s"}).select("g", "s").collect()}
    expected = {g: rounded(group) for g, group in enumerate(groups)}
    assert {g: s.hex() for g, s in found.items()} == {g: (s + 0.0).hex() for g, s in expected.items()}


def flow_of_sums():
    flow = tm.Dataflow("sums")
    rows = flow.input("rows", KX)
    flow.output("by key", rows.group_by("k").agg(**SUMS))
    flow.output("all", rows.agg(**SUMS))
    flow.output("some", rows.filter("k = 1").agg(s=tm.sum("x"), b=tm.bool_or("x > 1")))
    return flow


ORDINARY = [0.1, 0.2, -0.3, 1e15, -1e15, 2.0**53, 1.0, 0.0, -0.0, None]
EXTRAORDINARY = [math.nan, math.inf, -math.inf, 5e-324, 1e308, 2.0**70, -(2.0**-125)]


def history(values, latest):
    """Each value comes to two keys, at several times, and half of them leave again."""
    given = [((k, x), (i + k) % latest, 1 + k) for k in (0, 1, 2) for i, x in enumerate(values) if k != 1 or i % 2]
    return given + [((k, x), latest + 1, -n) for (k, x), _, n in given[::2]]


@pytest.mark.parametrize("values", [ORDINARY, [*ORDINARY, *EXTRAORDINARY]], ids=["limbs", "kernels"])
@pytest.mark.parametrize("latest", [1, 3])
def test_updates_are_those_of_the_reference_engine(spark, caplog, values, latest):
    caplog.set_level(logging.INFO, "tidemill.spark")
    engines = ["reference", "spark"]
    check_equivalent(flow_of_sums(), {"rows": history(values, latest)}, engines=engines, batchings=[all_at_once])
    again = [r.getMessage() for r in caplog.records if "tried again" in r.getMessage()]
    assert all("floats added up by the kernels" in text for text in again)
    assert bool(again) == (len(values) > len(ORDINARY))


@pytest.mark.parametrize("updates", [[], [((1, 0.5), 0, 1)], [((1, 0.5), 4, 1)], [((2, 0.5), 4, 1), ((2, 0.5), 4, -1)]])
def test_the_group_without_keys_has_a_row_at_the_least_time(spark, updates):
    check_equivalent(flow_of_sums(), {"rows": updates}, engines=["reference", "spark"], batchings=[all_at_once])


def test_limbs_that_overflow_are_added_up_by_the_kernels(spark):
    updates = [((1, 2.0**69), 0, 1 << 30), ((1, 2.0**69), 0, 1 << 29)]
    check_equivalent(flow_of_sums(), {"rows": updates}, engines=["reference", "spark"], batchings=[all_at_once])


def test_sums_of_floats_are_planned_by_spark(spark):
    flow = tm.Dataflow("sums")
    flow.output("o", flow.input("rows", KX).group_by("k").agg(**SUMS))
    plan = flow.explain(spark=spark)
    assert "run(" not in plan
    assert "limb1_4" in plan
