"""The recompute kernel says what the reference says, for all that can be drawn: functions, frames, orders, rows."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_windows import cases
from support.running import examples
from support.windowing import by_kernel, by_reference, outcome, values, wide_rows

import tidemill as tm
from tidemill.expressions.schema import Schema
from tidemill.expressions.windows.binding import bind_windows
from tidemill.expressions.windows.calls import calls_in
from tidemill.expressions.windows.frames import UNBOUNDED
from tidemill.expressions.windows.functions import lag
from tidemill.expressions.windows.specification import Window
from tidemill.renderer.embedded.kernels import sorting
from tidemill.renderer.embedded.kernels.codec import Interner, float_codes
from tidemill.renderer.embedded.kernels.updates import NULL
from tidemill.renderer.embedded.windows import ordering
from tidemill.renderer.embedded.windows.evaluate import recompute
from tidemill.renderer.embedded.windows.ordering import GivenRows


@pytest.mark.slow
@given(cases())
@examples(600)
def test_the_kernel_agrees_with_the_reference(case):
    schema, rows, calls = case
    wide, bound = wide_rows(schema, rows, calls)
    found, expected = outcome(by_kernel, wide, bound), outcome(by_reference, wide, bound)
    assert (Counter(found) if isinstance(found, list) else found) == expected


@pytest.mark.slow
@given(cases(most=2))
@examples(150)
def test_doing_the_work_in_parts_makes_no_difference(case):
    schema, rows, calls = case
    wide, bound = wide_rows(schema, rows, calls)
    whole = outcome(by_kernel, wide, bound)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordering, "CHUNK", 2)
        patch.setattr(sorting, "FEW", 2)
        in_parts = outcome(by_kernel, wide, bound)
    assert isinstance(whole, tuple) or in_parts == whole
    assert isinstance(in_parts, tuple) == isinstance(whole, tuple)


SMALL = st.none() | st.integers(0, 3)


@given(st.lists(st.tuples(SMALL, SMALL), max_size=12), st.data())
@examples(150)
def test_distinct_values_of_frames_with_rows_left_out(rows, data):
    mode = data.draw(st.sampled_from(["rows", "groups", "range"]))
    bound = st.just(UNBOUNDED) | st.integers(-3, 3)
    window = getattr(Window.order_by("t"), f"{mode}_between")(data.draw(bound), data.draw(bound))
    calls = {
        f"{name} {exclusion}": getattr(tm, name)("x").over(window.exclude(exclusion), distinct=True)
        for name in ("count", "sum")
        for exclusion in ("current row", "group", "ties")
    }
    values({"t": "int64", "x": "int64"}, [(t, x) for t, x in rows], **calls)


@pytest.mark.parametrize("nulls", ["first", "last"])
@pytest.mark.parametrize("sort_key", [tm.asc, tm.desc])
def test_ranges_at_the_ends_of_what_an_int64_holds(sort_key, nulls):
    ends = [-(2**63) + 1, -(2**63) + 2, -1, 0, 1, 2**63 - 2, 2**63 - 1]
    calls = {
        f"{start} {end}": tm.list("t").over(Window.order_by(sort_key("t", nulls=nulls)).range_between(start, end))
        for start in [*ends, UNBOUNDED]
        for end in [*ends, UNBOUNDED]
    }
    values({"t": "int64"}, [(t,) for t in [*ends, None]], **calls)


@pytest.mark.parametrize(("spread", "special"), [(3, 0), (20, 0), (60, 0), (900, 0), (20, 0.1)])
@pytest.mark.parametrize("width", [1, 4, 200])
def test_sums_of_floats_are_rounded_once(spread, special, width):
    rng = np.random.default_rng(spread)
    n, alike = 2_000, 50
    x = np.ldexp(rng.normal(size=n), rng.integers(-spread, spread, n))
    x = np.where(rng.random(n) < special, rng.choice([math.inf, -math.inf, math.nan, 0.0], n), x)
    schema = Schema.of({"k": "int64", "t": "int64", "x": "float64"})
    window = Window.partition_by("k").order_by("t").rows_between(-width, 0)
    (bound,) = bind_windows([("s", one) for one in calls_in(tm.sum("x").over(window))], schema)
    k = np.arange(n) // alike
    codes = np.stack((k, np.arange(n), float_codes(x), np.zeros(n, np.int64)))
    given_rows = GivenRows(k, codes, np.ones(n, np.int64))
    _, found = recompute(bound.windows, [b.dtype for _, b in bound.columns], given_rows, Interner())
    frames = [x[max(i - width, i // alike * alike) : i + 1] for i in range(n)]
    with np.errstate(invalid="ignore"):
        expected = [math.fsum(f) if np.isfinite(f).all() else f.sum() for f in frames]
    assert (found[0] == float_codes(np.array(expected))).all()


def test_large_inputs_whether_they_come_sorted_or_not():
    """More than one chunk of rows: as they come, and sorted before."""
    n = 3 * ordering.CHUNK // 2
    rng = np.random.default_rng(1)
    partition, t, x = np.arange(n) // 1000, rng.permutation(n), rng.integers(-9, 9, n)
    schema = Schema.of({"k": "int64", "t": "int64", "x": "int64"})
    w = Window.partition_by("k").order_by("t")
    (bound,) = bind_windows(zip("ab", calls_in(lag("x").over(w) + tm.sum("x").over(w)), strict=True), schema)
    codes = np.stack((partition, t, x, rng.integers(0, 9, n)))
    types = [b.dtype for _, b in bound.columns]
    given_rows = GivenRows(partition, codes, np.ones(n, np.int64))
    source, found = recompute(bound.windows, types, given_rows, Interner())
    assert (source == np.lexsort((t, partition))).all()
    ends = np.flatnonzero(np.diff(partition[source], append=-1))
    running = x[source].cumsum()
    before = np.concatenate(([0], running[ends[:-1]])).repeat(np.diff(ends, prepend=-1))
    assert (found[1] == running - before).all()
    lagged = np.where(np.diff(partition[source], prepend=-1) != 0, NULL, np.roll(x[source], 1))
    assert (found[0] == lagged).all()
    again = recompute(
        bound.windows, types, GivenRows(partition[source], codes[:, source], given_rows.counts), Interner()
    )
    assert (again[0] == np.arange(n)).all()
    assert (again[1] == found).all()
