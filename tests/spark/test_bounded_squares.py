"""Variances from sums of squares with a bound: that of the exact sums, or none; and then the step is taken again."""

import logging
import math
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from running import examples

import tidemill as tm
from tidemill.renderer.spark import few_groups
from tidemill.renderer.spark.bounded_squares import BOUNDED, UndecidedError
from tidemill.renderer.spark.exact_parts import cut
from tidemill.renderer.spark.native import selected

AGAIN = "squares of floats in more places"
ALL_EQUAL = [[9.99] * 7, [0.0] * 3, [2.0**29 + 0.1] * 50, [-0.1] * 1000]


def sums_by(spark, groups):
    """Return the sums of groups' limbs and of their squares."""
    data = spark.createDataFrame([(g, x) for g, group in enumerate(groups) for x in group], "g int, c0 double")
    selects, texts = cut({"part": BOUNDED.limbs.chain("c0"), **BOUNDED.chains(0)})
    data = selected(data, [*BOUNDED.selects({0: "c0"}), *selects])
    parts = BOUNDED.limbs.parts(0, texts["part"]) | BOUNDED.parts(0, "c0", texts)
    lines = data.groupBy("g").agg(*(F.expr(p.sum(in_floats=True)).alias(n) for n, p in parts.items())).collect()
    return {r.g: ([r[n] for n in BOUNDED.limbs.names(0)], [r[n] for n in BOUNDED.names(0)]) for r in lines}


def variance_of(group):
    total, squares = sum(map(Fraction, group)), sum(Fraction(x) ** 2 for x in group)
    return float((squares * len(group) - total**2) / (len(group) * (len(group) - 1)))


def near(middle, exponent):
    """Values so close to each other that errors of 2**-100 are in the digits of their variance."""
    return st.integers(-1000, 1000).map(lambda i: middle + math.ldexp(i, exponent))


VALUES = [
    st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 2.0**-10),
    st.integers(-(10**8), 10**8).map(lambda cents: cents / 100),
    st.integers(0, 2**27 - 1).map(float),  # squares of differences have 54 bits: ties
    near(0.6, -40),
    near(1000.1, -30),
    near(-(2.0**20) - 0.1, -12),
    st.sampled_from([2.0**30 - 2.0**-22, -(2.0**29) - 0.1, 2.0**-10, 0.1, -0.3, 0.0]),
]


@examples(6)
@given(data=st.data())
def test_bounds_hold_the_sum_of_squares_and_what_they_tell_is_exact(spark, data):
    seed = data.draw(st.integers(0, 2**32))
    groups = [data.draw(st.lists(values, min_size=2, max_size=9)) for values in VALUES for _ in range(4)]
    chance = random.Random(seed)
    groups += [[2000.3 + chance.randrange(2**20) * 2.0**-42 for _ in range(n)] for n in (2, 50, 3000)]
    groups += [[chance.uniform(-(2.0**20), 2.0**20) for _ in range(n)] for n in (2, 50, 3000)]
    groups += [[134217727.0, 0.0], [134217727.0, 0.0, 2.0**-30, 0.1]]
    for g, (limbs, squares) in sums_by(spark, groups).items():
        least, most = BOUNDED.bounds(squares[:-1], len(groups[g]))
        assert least <= sum(Fraction(x) ** 2 for x in groups[g]) * 2**126 <= most
        try:
            found = BOUNDED.variance(limbs, squares, len(groups[g]))
        except UndecidedError:
            continue
        assert found == variance_of(groups[g])


def test_ordinary_groups_and_equal_values_are_decided(spark):
    chance = random.Random(7)
    groups = [[chance.randrange(10**9) / 1000 for _ in range(3000)], [chance.random() for _ in range(3000)]]
    groups += [[chance.gauss(100, 0.1) for _ in range(100)], [1.0, 2.0], [0.1, 0.2, 0.3], *ALL_EQUAL]
    for g, (limbs, squares) in sums_by(spark, groups).items():
        assert BOUNDED.variance(limbs, squares, len(groups[g])) == variance_of(groups[g])
    assert BOUNDED.variance([0, 0, 0], [0.0] * 5, 1) is None


def test_a_first_place_of_too_many_bits_tells_nothing():
    with pytest.raises(UndecidedError):
        BOUNDED.bounds([2.0**69, 0.0, 0.0, 0.0], 3)


@pytest.mark.parametrize("few", [0, 1000], ids=["by Spark", "by the driver"])
@pytest.mark.parametrize(
    "case",
    [
        ([0.5, 0.25, 12.34, 9.99], 0),
        ([9.99, 9.99, 9.99], 0),
        ([134217727.0, 0.0], 1),  # a variance between two floats
        ([0.1, math.nextafter(0.1, 1), 0.1], 1),
        ([2.0**30 - 1, 1.0] * 600, 1),  # of which the first place has too many bits
    ],
    ids=["ordinary", "equal", "tie", "close", "large"],
)
def test_undecided_variances_are_of_exact_squares_then(spark, caplog, monkeypatch, few, case):
    values, tries = case
    monkeypatch.setattr(few_groups, "FEW", few)
    caplog.set_level(logging.INFO, "tidemill.spark")
    flow = tm.Dataflow("spreads")
    rows = flow.input("rows", {"k": "int64", "x": "float64"})
    flow.output("out", rows.group_by("k").agg(v=tm.variance("x"), e=tm.stddev("x"), n=tm.count()))
    lines = [(1, x) for x in values] + [(2, 0.1), (2, 0.7), (3, 5.0), (4, None)]
    found = tm.render(flow, spark, {"rows": spark.createDataFrame(lines, "k bigint, x double")})["out"]
    v, other = variance_of(values), variance_of([0.1, 0.7])
    expected = {1: (v, math.sqrt(v)), 2: (other, math.sqrt(other)), 3: (None, None), 4: (None, None)}
    assert {row.k: (row.v, row.e) for row in found.collect()} == expected
    assert [AGAIN in record.getMessage() for record in caplog.records].count(True) == tries
