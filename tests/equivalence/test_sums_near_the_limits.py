"""Sums of large values, taken very often: exact as long as the result has a value, however far parts of it go beyond."""

import decimal
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import COORDINATES, examples, start

import tidemill as tm
from tidemill.errors import CountOverflowError, StepError
from tidemill.renderer.durable import spill_files
from tidemill.renderer.embedded.reduce import accumulators
from tidemill.renderer.embedded.trace import spine

GREATEST = 2**63 - 1
SIZES = [0, 1, 7, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**62, GREATEST]
WHOLE = st.builds(lambda sign, size: sign * size, st.sampled_from([-1, 1]), st.sampled_from(SIZES))
TIMES = st.sampled_from([1, 3, 2**20 + 1, 2**30, 2**31 - 1, 2**31])
COUNTS = st.builds(lambda sign, size: sign * size, st.sampled_from([-1, 1, 1]), TIMES)
SCHEMA = {
    "k": "int64",
    "i": "int64",
    "s": "int32",
    "b": "bool",
    "d": "decimal(18,2)",
    "l": "decimal(38,2)",
    "f": "float64",
}
EXACT = decimal.Context(prec=60)
AGGREGATES = {
    **{f"{function}_{c}": getattr(tm, function)(c) for c in "isdlf" for function in ("sum", "avg", "variance")},
    "some_b": tm.bool_or("b"),
    "all_b": tm.bool_and("b"),
    "spread_i": tm.stddev("i"),
}


@st.composite
def rows(draw, keys=1):
    """A row whose columns are all near their limits, or NULL."""
    whole = draw(WHOLE)
    cents = (abs(whole) % 10**17) * (1 if whole > 0 else -1)
    row = (
        draw(st.integers(1, keys)),
        whole,
        max(min(whole, 2**31 - 1), -(2**31)),
        whole > 0,
        decimal.Decimal(cents).scaleb(-2),
        decimal.Decimal(whole * draw(st.sampled_from([1, 10**12]))).scaleb(-2, EXACT),
        draw(st.sampled_from([float(whole), whole * 1e-3, whole * 1e270])),
    )
    return tuple(None if i and draw(st.integers(0, 9)) == 0 else value for i, value in enumerate(row))


@st.composite
def changes(draw, coordinates=1, keys=1):
    """Updates of a few rows, again and again, at a few times."""
    few = draw(st.lists(rows(keys), min_size=1, max_size=3))
    time = st.integers(0, 4) if coordinates == 1 else st.tuples(*[st.integers(0, 2)] * coordinates)
    return draw(st.lists(st.tuples(st.sampled_from(few), time, COUNTS), min_size=1, max_size=10))


def aggregated(name, coordinates=1):
    flow = tm.Dataflow("large sums", time=COORDINATES[coordinates])
    flow.output("out", flow.input("x", SCHEMA).group_by("k").agg(out=AGGREGATES[name]))
    return flow


def outcome(flow, updates, engine, *, at_once):
    """What comes out, step by step up to the first that is an error, and this; of several groups any may be named."""
    found = []
    with start(flow, engine) as run:
        try:
            for time in [None] if at_once else range(5):
                run.update("x", [u for u in updates if time is None or u[1] == time])
                run.close_inputs() if time is None else run.advance_to(time + 1)
                found.append(repr(sorted(run.changes("out"), key=repr)))
        except StepError as error:
            found.append(re.sub(r"key \(\d+,\)", "key", f"{type(error).__name__}: {error}"))
    return found


@pytest.fixture(params=[False, True], ids=["small", "large"])
def large(request, monkeypatch):
    """A few updates go through what many would: they are added up at once, and merged."""
    if request.param:
        monkeypatch.setattr(accumulators, "MANY", 0)
        monkeypatch.setattr(spine, "TAIL", 1)
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [False, True], ids=["epochs", "at_once"])
@pytest.mark.parametrize("name", AGGREGATES)
def test_sums_near_the_limits_are_what_the_specification_says(large, name, at_once):
    @examples(60, least=8)
    @given(changes(keys=2))
    def check(updates):
        expected = outcome(aggregated(name), updates, "reference", at_once=at_once)
        assert outcome(aggregated(name), updates, "embedded", at_once=at_once) == expected

    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sum_i", "avg_i", "avg_l", "sum_f", "variance_i", "variance_f"])
def test_so_they_are_at_times_of_several_coordinates(large, name):
    @examples(30, least=6)
    @given(changes(coordinates=2))
    def check(updates):
        expected = outcome(aggregated(name, 2), updates, "reference", at_once=True)
        assert outcome(aggregated(name, 2), updates, "embedded", at_once=True) == expected

    check()


def test_so_they_are_where_all_is_spilled(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(spill_files, "PAGE", 2)

    @examples(12, least=4)
    @given(changes(keys=2), st.sampled_from(sorted(AGGREGATES)))
    def check(updates, name):
        engine = tm.Embedded(tmp_path_factory.mktemp("state") / "run", in_memory=0, checkpoint_every=2)
        expected = outcome(aggregated(name), updates, "reference", at_once=False)
        assert outcome(aggregated(name), updates, engine, at_once=False) == expected

    check()


def of_whole_numbers(engine, steps, **aggregates):
    """What the last step leaves of a table of whole numbers."""
    flow = tm.Dataflow("whole")
    flow.output("out", flow.input("x", {"k": "int64", "v": "int64"}).group_by("k").agg(**aggregates))
    with start(flow, engine) as run:
        for time, step in enumerate(steps):
            run.update("x", [((0, value), time, count) for value, count in step])
            run.advance_to(time + 1)
        ((_, *found),) = run.snapshot("out")
    return found


@pytest.mark.parametrize("value", [-1, -2])
def test_many_numbers_whose_halves_overflow_have_the_sum_and_the_average_that_they_have(engine, value):
    steps = [[(value, 2**30)]] * 3
    assert of_whole_numbers(engine, steps, total=tm.sum("v"), mean=tm.avg("v")) == [value * 3 * 2**30, float(value)]


def test_what_cancels_later_may_be_beyond_what_limbs_hold(engine):
    far = [[(GREATEST, 2**31)]] * 5
    assert of_whole_numbers(engine, far, mean=tm.avg("v")) == [float(GREATEST)]
    back = [[(GREATEST, -(2**31)), (-7, 1)]] * 5
    assert of_whole_numbers(engine, [*far, *back], mean=tm.avg("v"), n=tm.count()) == [-7.0, 5]


def test_a_row_may_be_there_more_often_in_a_step_than_in_one_update(engine):
    steps = [[(5, 2**31), (5, 2**31), (6, 2**31)]]
    assert of_whole_numbers(engine, steps, total=tm.sum("v"), n=tm.count()) == [16 * 2**31, 3 * 2**31]


def test_counts_beyond_53_bits_divide_as_whole_numbers():
    flow = tm.Dataflow("counts")
    one = flow.input("x", {"k": "int64", "v": "int64"})
    flow.output("out", one.join(one.select("k"), on="k").concat(one).group_by("k").agg(mean=tm.avg("v"), n=tm.count()))
    with flow.start() as run:
        run.update("x", [((0, 1), 0, 2**27 + 1), ((0, 0), 0, 2**27)])
        run.advance()
        ((_, mean, count),) = run.snapshot("out")
    true = (2**27 + 1) * (2**28 + 2)
    assert count == (2**28 + 1) * (2**28 + 2)
    assert mean == true / count == float(Fraction(true, count))


def test_a_sum_that_does_not_fit_is_still_an_overflow(engine):
    for steps in ([[(-1, 2**31)] * 2, [(GREATEST, 2**31)] * 5], [[(GREATEST, 2)]], [[(2**32, 2**31)]]):
        with pytest.raises(StepError, match="overflow in `sum AS total`"):
            of_whole_numbers(engine, steps, total=tm.sum("v"))


def test_counts_that_do_not_fit_are_refused_where_they_are_added_up():
    flow = tm.Dataflow("large")
    c = flow.input("x", {"k": "int64"}).iterate(lambda c: c.concat(c), return_at=62)
    flow.output("out", c.concat(c, c, c).group_by("k").agg(mean=tm.avg("k")))
    with flow.start() as run:
        run.insert("x", [(1,)])
        with pytest.raises(CountOverflowError, match="beyond 2\\*\\*63 - 1"):
            run.advance()


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2**16, 2**20, 2**30])
@pytest.mark.parametrize("sign", [1, -1])
def test_loads_of_many_rows_are_added_up_by_key_exactly(count, sign):
    """Many rows of few keys go through tables of keys, with as many counts as their sums hold."""
    n, keys = 30_000, 50
    value = np.resize(np.array([sign * v for v in SIZES[1:]]), n)
    key = np.arange(n) % keys
    flow = tm.Dataflow("load")
    flow.output("out", flow.input("x", {"k": "int64", "v": "int64"}).group_by("k").agg(n=tm.count(), mean=tm.avg("v")))
    with flow.start() as run:
        if count == 1:
            run.insert("x", pa.table({"k": key, "v": value}))
        else:
            run.update("x", [((k, v), 0, count) for k, v in zip(key.tolist(), value.tolist(), strict=True)])
        run.advance()
        found = {k: (many, mean) for k, many, mean in run.snapshot("out")}
    of_key = {k: [v for other, v in zip(key.tolist(), value.tolist(), strict=True) if other == k] for k in range(keys)}
    assert found == {k: (len(vs) * count, sum(vs) * count / (len(vs) * count)) for k, vs in of_key.items()}
