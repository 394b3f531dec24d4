"""Cases that other systems' tests and manuals have, each with the values they say."""

import datetime as dt
import decimal
import math

import pytest
from support.windowing import column, values

import tidemill as tm
from tidemill.expressions.windows.frames import UNBOUNDED
from tidemill.expressions.windows.functions import (
    cume_dist,
    dense_rank,
    first_value,
    lag,
    last_value,
    lead,
    nth_value,
    ntile,
    percent_rank,
    rank,
    row_number,
)
from tidemill.expressions.windows.specification import Window

N = None
X = {"x": "int64"}


# C1. Frame modes differ where values are there several times.

ONES = [(1,), (1,), (1,), *((x,) for x in range(5, 50, 2))]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window.rows_between, [2, 3, 7, 13, 21, 27, 33, 39, 45, 51, 57, 63, 69, 75, 81, 87, 93, 99, 105, 111, 117, 123, 129, 135, 141, 96]),
        (Window.range_between, [3, 3, 3, *range(5, 50, 2)]),
        (Window.groups_between, [8, 8, 8, 15, 21, 27, 33, 39, 45, 51, 57, 63, 69, 75, 81, 87, 93, 99, 105, 111, 117, 123, 129, 135, 141, 96]),
    ],
)  # fmt: skip
def test_c1_frame_modes(window, expected):
    assert column(X, ONES, tm.sum("x").over(window(-1, 1).order_by("x"))) == expected


# C2, C3. Ten numbers in four peer groups.

TEN = [(u, u % 4) for u in range(10)]


def of_ten(frame):
    """Return the sums by number, where rows of one group come in an order of their own."""
    found = values({"u": "int64", "four": "int64"}, TEN, s=tm.sum("u").over(frame.order_by("four")))
    return [s for (_, (s,)) in sorted(found)]


@pytest.mark.parametrize(
    ("start", "end", "exclusion", "expected"),
    [
        (UNBOUNDED, 0, "no others", [12, 27, 35, 45, 12, 27, 35, 45, 12, 27]),
        (0, UNBOUNDED, "no others", [45, 33, 18, 10, 45, 33, 18, 10, 45, 33]),
        (1, UNBOUNDED, "no others", [33, 18, 10, N, 33, 18, 10, N, 33, 18]),
        (-2, -1, "no others", [N, 12, 27, 23, N, 12, 27, 23, N, 12]),
        (-2, 1, "no others", [27, 35, 45, 33, 27, 35, 45, 33, 27, 35]),
        (-2, 1, "current row", [27, 34, 43, 30, 23, 30, 39, 26, 19, 26]),
        (-2, 1, "group", [15, 20, 37, 23, 15, 20, 37, 23, 15, 20]),
        (-2, 1, "ties", [15, 21, 39, 26, 19, 25, 43, 30, 23, 29]),
        (0, 0, "no others", [12, 15, 8, 10, 12, 15, 8, 10, 12, 15]),
    ],
)
def test_c2_groups_and_exclusions(start, end, exclusion, expected):
    assert of_ten(Window.groups_between(start, end).exclude(exclusion)) == expected


@pytest.mark.parametrize(
    ("exclusion", "expected"),
    [
        ("current row", [12, 26, 33, 42, 8, 22, 29, 38, 4, 18]),
        ("group", [N, 12, 27, 35, N, 12, 27, 35, N, 12]),
        ("ties", [0, 13, 29, 38, 4, 17, 33, 42, 8, 21]),
    ],
)
def test_c3_range_and_exclusions(exclusion, expected):
    assert of_ten(Window.range_between(UNBOUNDED, 0).exclude(exclusion)) == expected


# C4. RANGE where the order's value is NULL.

NULLS = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (N, 42), (N, 43)]


@pytest.mark.parametrize("nulls", ["first", "last"])
@pytest.mark.parametrize("descending", [False, True])
def test_c4_range_over_nulls(nulls, descending):
    key = (tm.desc if descending else tm.asc)("x", nulls=nulls)
    w = Window.order_by(key).range_between(-2, 2)
    found = values({"x": "int64", "y": "int64"}, NULLS, a=first_value("y").over(w), b=last_value("y").over(w))
    known = {row[0]: ends for row, ends in found if row[0] is not None}
    up = {1: (1, 3), 2: (1, 4), 3: (1, 5), 4: (2, 5), 5: (3, 5)}
    assert known == ({x: (b, a) for x, (a, b) in up.items()} if descending else up)
    lacking = [ends for row, ends in found if row[0] is None]
    assert lacking == [lacking[0]] * 2  # the two are peers
    assert sorted(lacking[0]) == [42, 43]
    assert [row[0] for row, _ in found][: 2 if nulls == "first" else -3 : -1 if nulls == "last" else 1] == [N, N]


def test_c4_unbounded_spans_nulls_too():
    w = Window.order_by("x").range_between(UNBOUNDED, 1)
    assert column({"x": "int64", "y": "int64"}, NULLS, tm.count().over(w)) == [2, 2, 4, 5, 6, 7, 7]
    w = Window.order_by("x").range_between(-1, UNBOUNDED)
    assert column({"x": "int64", "y": "int64"}, NULLS, tm.count().over(w)) == [7, 7, 5, 5, 4, 3, 2]


# C5. Degenerate frames.


def test_c5_frames_outside_of_the_partition():
    schema, rows = {"a": "int64", "b": "int64"}, [(1, 1), (2, 2)]
    w = Window.partition_by("a").order_by("b")
    assert column(schema, rows, tm.sum("a").over(w.range_between(-1, 1))) == [1, 2]
    assert column(schema, rows, tm.sum("a").over(w.range_between(-2, -1))) == [N, N]
    assert column(schema, rows, tm.sum("a").over(w.groups_between(1, 2))) == [N, N]


def test_c5_reversed_frames_are_empty():
    schema, rows = {"b": "int64", "c": "int64"}, [(1, 1), (2, 3), (4, 9)]
    w = Window.order_by("b")
    for frame in (w.rows_between(-1, -10), w.rows_between(10, 1), w.range_between(-2, -10), w.groups_between(2, -2)):
        assert column(schema, rows, tm.count().over(frame)) == [0, 0, 0]
        assert column(schema, rows, tm.avg("c").over(frame)) == [N, N, N]
    assert column(schema, rows, tm.avg("c").over(w.rows_between(1, 1))) == [3.0, 9.0, N]
    named = [(1, "A"), (2, "B"), (N, "B")]
    call = tm.count().over(Window.partition_by("ch").order_by(tm.asc("id", nulls="last")).rows_between(1, 2))
    assert column({"id": "int64", "ch": "string"}, named, call) == [0, 1, 0]


# C6. Where a row is in its partition.

SPREAD = [(0, 0), (0, 0), (4, 0), (1, 1), (1, 1), (7, 1), (9, 1), (0, 2), (1, 3), (3, 3)]
TEN_FOUR = {"ten": "int64", "four": "int64"}


def test_c6_rankings():
    w = Window.partition_by("four").order_by("ten")
    found = values(
        TEN_FOUR, SPREAD, r=rank().over(w), d=dense_rank().over(w), p=percent_rank().over(w), c=cume_dist().over(w)
    )
    ranks, dense, percent, cume = zip(*(v for _, v in found))
    assert ranks == (1, 1, 3, 1, 1, 3, 4, 1, 1, 2)
    assert dense == (1, 1, 2, 1, 1, 2, 3, 1, 1, 2)
    assert percent == (0, 0, 1, 0, 0, 2 / 3, 1, 0, 0, 1)
    assert cume == (2 / 3, 2 / 3, 1, 0.5, 0.5, 0.75, 1, 1, 0.5, 1)


def test_c6_ntile():
    w = Window.order_by("ten", "four")
    assert column(TEN_FOUR, SPREAD, ntile(3).over(w)) == [1, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert column(TEN_FOUR, SPREAD, ntile(tm.lit(None)).over(w)) == [N] * 10
    assert column(TEN_FOUR, SPREAD, ntile(100).over(w)) == list(range(1, 11))


def test_c6_offsets_by_row():
    w = Window.partition_by("four").order_by("ten")
    assert column(TEN_FOUR, SPREAD, lag("ten", "four").over(w)) == [0, 0, 4, N, 1, 1, 7, N, N, N]
    assert column(TEN_FOUR, SPREAD, lag("ten", "four", 0).over(w)) == [0, 0, 4, 0, 1, 1, 7, 0, 0, 0]
    assert column(TEN_FOUR, SPREAD, lead(tm.col("ten") * 2, 1, -1).over(w)) == [0, 8, -1, 2, 14, 18, -1, -1, 6, -1]
    whole = w.rows_between(UNBOUNDED, UNBOUNDED)
    assert column(TEN_FOUR, SPREAD, nth_value("ten", "four + 1").over(whole)) == [0, 0, 0, 1, 1, 1, 1, N, N, N]


# C7. IGNORE NULLS in frames.

PLANETS = [
    ("earth", N), ("jupiter", 4332), ("mars", N), ("mercury", 88), ("neptune", 60182), ("pluto", 90560),
    ("saturn", 24491), ("uranus", N), ("venus", 224), ("xyzzy", N),
]  # fmt: skip
ORBITS = {"name": "string", "orbit": "int64"}
NAMED = Window.order_by("name")
NEAR = NAMED.rows_between(-2, 2)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lag("orbit").over(NAMED), [N, N, 4332, N, 88, 60182, 90560, 24491, N, 224]),
        (lag("orbit", ignore_nulls=True).over(NAMED), [N, N, 4332, 4332, 88, 60182, 90560, 24491, 24491, 224]),
        (lead("orbit", ignore_nulls=True).over(NAMED), [4332, 88, 88, 60182, 90560, 24491, 224, 224, N, N]),
        (first_value("orbit", ignore_nulls=True).over(NEAR), [4332, 4332, 4332, 4332, 88, 88, 60182, 90560, 24491, 224]),
        (last_value("orbit", ignore_nulls=True).over(NEAR), [4332, 88, 60182, 90560, 24491, 24491, 224, 224, 224, 224]),
        (nth_value("orbit", 2, ignore_nulls=True).over(NEAR), [N, 88, 88, 88, 60182, 60182, 90560, 24491, 224, N]),
        (nth_value("orbit", 2, ignore_nulls=True).over(NEAR.exclude("current row")), [N, N, 88, 60182, 90560, 60182, 90560, 24491, N, N]),
        (first_value("orbit", ignore_nulls=True).over(NEAR.exclude("current row")), [4332, 88, 4332, 4332, 88, 88, 60182, 90560, 24491, 224]),
        (first_value("orbit", ignore_nulls=True).over(NAMED.rows_between(UNBOUNDED, UNBOUNDED)), [4332] * 10),
        (nth_value("orbit", 2, ignore_nulls=True).over(Window.rows_between(UNBOUNDED, UNBOUNDED).order_by("name")), [88] * 10),
        (last_value("orbit", ignore_nulls=True).over(NAMED.range_between(UNBOUNDED, UNBOUNDED)), [224] * 10),
    ],
)  # fmt: skip
def test_c7_ignoring_nulls(call, expected):
    assert column(ORBITS, PLANETS, call) == expected


# C8. Lag and lead that ignore nulls: offsets, defaults, the other way round, by row.

T6 = [(1, 2), (3, N), (5, 6), (7, 8), (9, N), (11, N), (13, 14), (15, 16), (17, 18)]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lag("y", ignore_nulls=True), [N, 2, 2, 6, 8, 8, 8, 14]),
        (lead("y", ignore_nulls=True), [6, 6, 8, 14, 14, 14, 16, 18]),
        (lag("y", 2, ignore_nulls=True), [N, N, N, 2, 6, 6, 6, 8]),
        (lead("y", 2, ignore_nulls=True), [8, 8, 14, 16, 16, 16, 18, N]),
        (lag("y", 2, -1, ignore_nulls=True), [-1, -1, -1, 2, 6, 6, 6, 8]),
        (lead("y", 2, -1, ignore_nulls=True), [8, 8, 14, 16, 16, 16, 18, -1]),
        (lag("y", -1, 100, ignore_nulls=True), [6, 6, 8, 14, 14, 14, 16, 18]),
        (lead("y", -2, 100, ignore_nulls=True), [100, 100, 100, 2, 6, 6, 6, 8]),
        (lag("y", "y div 5 + 1", ignore_nulls=True), [N, N, N, 2, N, N, 2, 2]),
        (lag("y", tm.lit(None), ignore_nulls=True), [N] * 8),
        (lag("y", 1), [N, 2, N, 6, 8, N, N, 14]),
    ],
)
def test_c8_lag_and_lead_over_nulls(function, expected):
    assert column({"x": "int64", "y": "int64"}, T6, function.over(Window.order_by("x")))[:8] == expected


# C20. No way back from NaN or 1e20 by taking away what was added.


def test_c20_sums_that_cannot_be_taken_back():
    schema = {"i": "int64", "x": "float64"}
    rows = list(enumerate([1.0, 2.0, math.nan, 3.0, 4.0]))
    found = column(schema, rows, tm.sum("x").over(Window.order_by("i").rows_between(-1, 0)))
    assert [*found[:2], *found[4:]] == [1.0, 3.0, 7.0]
    assert all(map(math.isnan, found[2:4]))
    ahead = Window.order_by("i").rows_between(0, 1)
    assert column(schema, [(0, 1e20), (1, 1.0)], tm.sum("x").over(ahead)) == [1e20, 1.0]
    ints = {"i": "int64", "x": "int64"}
    assert column(ints, list(enumerate([1, 2, N, N])), tm.sum("x").over(ahead)) == [3, 2, N, N]
    bools = list(enumerate([True, True, False, False, True]))
    assert column({"i": "int64", "x": "bool"}, bools, tm.bool_and("x").over(ahead)) == [
        True,
        False,
        False,
        False,
        True,
    ]
    assert column({"i": "int64", "x": "bool"}, bools, tm.bool_or("x").over(ahead)) == [True, True, False, True, True]


def test_infinities_in_frames():
    rows = list(enumerate([math.inf, 1.0, -math.inf, 2.0, math.inf]))
    found = column({"i": "int64", "x": "float64"}, rows, tm.sum("x").over(Window.order_by("i").rows_between(-2, 0)))
    assert found[:2] == [math.inf, math.inf]
    assert math.isnan(found[2])
    assert found[3] == -math.inf
    assert math.isnan(found[4])


# C21. DISTINCT in frames.


def test_c21_distinct():
    rows = list(enumerate("abbccbca"))
    near = Window.order_by("i").rows_between(-2, 2)
    assert column({"i": "int64", "s": "string"}, rows, tm.count_distinct("s").over(near)) == [2, 3, 3, 2, 2, 3, 3, 3]
    pairs = [(1, 2), (1, 1), (1, 2), (2, 1), (2, 1), (2, 2), (2, 3), (2, 4)]
    by_a = Window.partition_by("a")
    found = values({"a": "int64", "b": "int64"}, pairs, n=tm.count("b").over(by_a), d=tm.count_distinct("b").over(by_a))
    assert sorted((row[0], *v) for row, v in found) == [(1, 3, 2)] * 3 + [(2, 5, 4)] * 5
    call = tm.count_distinct("x % 3").filter("x > 3").over(Window.partition_by("x > 5"))
    found = values(X, [(x,) for x in range(1, 11)], d=call)
    assert sorted((row[0], *v) for row, v in found) == [(x, 2 if x <= 5 else 3) for x in range(1, 11)]


# C22. Defaults.


def test_c22_defaults():
    amounts = [100.50, 250.75, 175.25, 300.00, 95.50, 425.30, 150.00]
    schema, rows, w = {"d": "int64", "amount": "float64"}, list(enumerate(amounts)), Window.order_by("d")
    assert column(schema, rows, lag("amount", 1, 0).over(w)) == [0, *amounts[:-1]]
    assert column(schema, rows, lead("amount", 1, 0).over(w)) == [*amounts[1:], 0]
    months = [(1,), (1,), (2,), (3,)]
    assert column(X, months, tm.count().over(Window.order_by("x").rows_between(UNBOUNDED, 0))) == [1, 2, 3, 4]


# C23. Sales.

SALES = [
    ("Alice", "N", 34), ("Frank", "S", 22), ("Charles", "N", 45), ("Darrell", "S", 8), ("Grant", "S", 23),
    ("Brad", "N", 22), ("Elizabeth", "S", 99), ("Horace", "E", 1),
]  # fmt: skip


def test_c23_sales():
    schema = {"emp": "string", "region": "string", "total": "int64"}
    best = Window.partition_by("region").order_by(tm.desc("total"))
    found = {row[0]: n for row, (n,) in values(schema, SALES, n=row_number().over(best))}
    assert {name for name, n in found.items() if n <= 2} == {"Horace", "Charles", "Alice", "Elizabeth", "Grant"}
    w = Window.partition_by("region").order_by("total")
    found = {
        row[0]: v
        for row, v in values(
            schema, SALES, a=tm.sum("total").over(w), b=tm.sum("total").over(w.rows_between(0, UNBOUNDED))
        )
    }
    assert found == {
        "Horace": (1, 1), "Brad": (22, 101), "Alice": (56, 79), "Charles": (101, 45), "Darrell": (8, 152),
        "Frank": (30, 144), "Grant": (53, 122), "Elizabeth": (152, 99),
    }  # fmt: skip
    all_others = Window.rows_between(UNBOUNDED, UNBOUNDED).exclude("current row")
    assert {row[2] + v for row, (v,) in values(schema, SALES, v=tm.sum("total").over(all_others))} == {254}


# C24. LAG over peers does not see the row itself.


def test_c24_lag_among_ties():
    rows = [(1, 1), (3, 2), (4, 3), (5, 3), (2, 5), (6, 21), (7, 22)]
    found = values({"b": "int64", "t": "int64"}, rows, v=lag("b").over(Window.order_by("t")))
    in_order = [row[0] for row, _ in found]
    assert [v for _, (v,) in found] == [N, *in_order[:-1]]
    assert sorted(in_order[2:4]) == [4, 5]


# C25. IGNORE NULLS as Spark has it, offset 0 included.

V = [N, "x", N, N, "y", N, "z", "v", N]
IDS = {"id": "int64", "v": "string"}
BY_ID = Window.order_by("id")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lead("v", 0, ignore_nulls=True).over(BY_ID), V),
        (lag("v", 0, ignore_nulls=True).over(BY_ID), V),
        (lead("v", 1, ignore_nulls=True).over(BY_ID), ["x", "y", "y", "y", "z", "z", "v", N, N]),
        (lead("v", 2, ignore_nulls=True).over(BY_ID), ["y", "z", "z", "z", "v", "v", N, N, N]),
        (lead("v", 3, ignore_nulls=True).over(BY_ID), ["z", "v", "v", "v", N, N, N, N, N]),
        (lag("v", 1, ignore_nulls=True).over(BY_ID), [N, N, "x", "x", "x", "y", "y", "z", "v"]),
        (lag("v", 2, ignore_nulls=True).over(BY_ID), [N, N, N, N, N, "x", "x", "y", "z"]),
        (lag("v", 3, ignore_nulls=True).over(BY_ID), [N, N, N, N, N, N, N, "x", "y"]),
        (first_value("v", ignore_nulls=True).over(BY_ID.rows_between(-2, 2)), ["x", "x", "x", "x", "y", "y", "y", "z", "z"]),
        (nth_value("v", 2, ignore_nulls=True).over(BY_ID.rows_between(-2, 2)), [N, N, "y", "y", "z", "z", "z", "v", "v"]),
        (nth_value("v", 3, ignore_nulls=True).over(BY_ID.rows_between(-2, 2)), [N, N, N, N, N, "v", "v", N, N]),
        (last_value("v", ignore_nulls=True).over(BY_ID.rows_between(-2, 2)), ["x", "x", "y", "y", "z", "v", "v", "v", "v"]),
        (last_value("v", ignore_nulls=True).over(BY_ID.range_between(-2, 2)), ["x", "x", "y", "y", "z", "v", "v", "v", "v"]),
        (first_value("v", ignore_nulls=True).over(BY_ID.rows_between(0, UNBOUNDED)), ["x", "x", "y", "y", "y", "z", "z", "v", N]),
        (nth_value("v", 2, ignore_nulls=True).over(BY_ID.rows_between(0, UNBOUNDED)), ["y", "y", "z", "z", "z", "v", "v", N, N]),
        (last_value("v", ignore_nulls=True).over(BY_ID.rows_between(0, UNBOUNDED)), ["v"] * 8 + [N]),
        (nth_value("v", 2, ignore_nulls=True).over(BY_ID.rows_between(UNBOUNDED, 1)), [N, N, N, "y", "y", "y", "y", "y", "y"]),
        (nth_value("v", 3, ignore_nulls=True).over(BY_ID.rows_between(UNBOUNDED, 1)), [N, N, N, N, N, "z", "z", "z", "z"]),
        (last_value("v", ignore_nulls=True).over(BY_ID.rows_between(UNBOUNDED, 1)), ["x", "x", "x", "y", "y", "z", "v", "v", "v"]),
    ],
)  # fmt: skip
def test_c25_ignoring_nulls_as_spark(call, expected):
    assert column(IDS, list(enumerate(V)), call) == expected


# C26. RANGE over dates, with intervals.

BOSTON = [564337, 507405, 528523, 469538, 474163, 507213, 613040, 582588, 499506, 482014, 486134, 531518]
WORCESTER = [118860, 101977, 106054, 92182, 94492, 99932, 118854, 113506, 96644, 93806, 98963, 107170]
BOSTON_AVG = [
    517450.75,
    508793.2,
    508529.83,
    523459.857,
    526067.14,
    524938.71,
    518294.57,
    520665.429,
    528859,
    532466.667,
    516352,
    499793,
]
WORCESTER_AVG = [104768.25, 102713, 102249.5, 104621.57, 103856.71, 103094.857, 101345.14, 102313.857, 104125, 104823.83, 102017.8, 99145.75]  # fmt: skip


@pytest.mark.parametrize(("kind", "first"), [("date", dt.date(2019, 1, 2)), ("timestamp", dt.datetime(2019, 1, 2))])
@pytest.mark.parametrize("size", [dt.timedelta(days=3), tm.interval(days=3), dt.timedelta(days=3, hours=23)])
def test_c26_intervals(kind, first, size):
    days = [first + dt.timedelta(days=i) for i in range(12)]
    rows = [(p, d, mwh) for p, some in (("Boston", BOSTON), ("Worcester", WORCESTER)) for d, mwh in zip(days, some)]
    w = (
        Window.partition_by("plant")
        .order_by("day")
        .range_between(-size if isinstance(size, dt.timedelta) else tm.interval(days=-3), size)
    )
    found = column({"plant": "string", "day": kind, "mwh": "int64"}, rows, tm.avg("mwh").over(w))
    assert found == pytest.approx([*BOSTON_AVG, *WORCESTER_AVG], abs=0.01)


def test_range_by_months():
    days = [
        dt.date(2024, 1, 29),
        dt.date(2024, 1, 31),
        dt.date(2024, 2, 28),
        dt.date(2024, 2, 29),
        dt.date(2024, 3, 31),
    ]
    call = tm.count().over(Window.order_by("d").range_between(tm.interval(months=-1), 0))
    assert column({"d": "date"}, [(d,) for d in days], call) == [1, 2, 3, 4, 2]
    down = tm.count().over(Window.order_by(tm.desc("d")).range_between(tm.interval(months=-1), 0))
    assert column({"d": "date"}, [(d,) for d in days], down) == [1, 1, 2, 3, 4]


# C27. RANGE over distances of thousands.

SALARIES = [5186, 6627, 6660, 6949, 8113, 8435, 8870, 8992, 9181, 9441, 9998, 10449, 10563, 10586, 11303, 11472, 11798]


@pytest.mark.parametrize("kind", ["int32", "int64", "float64", "decimal(10,0)", "decimal(30,2)"])
def test_c27_wide_ranges(kind):
    w = Window.order_by("x").range_between(-2000, 1000)
    rows = [(decimal.Decimal(s) if "decimal" in kind else s,) for s in SALARIES]
    found = values({"x": kind}, rows, a=first_value("x").over(w), b=nth_value("x", 2).over(w))
    first, second = zip(*(v for _, v in found))
    assert list(first) == [5186] * 4 + [6627] * 2 + [6949] + [8113] * 4 + [8870] * 3 + [9441, 9998, 9998]
    assert list(second) == [N, *[6627] * 3, *[6660] * 2, 8113, *[8435] * 4, *[8992] * 3, 9998, 10449, 10449]


# C28. GROUPS.


def test_c28_groups():
    schema, rows = {"batch": "int64", "amount": "int64"}, [(1, 10), (1, 15), (2, 20), (3, 25), (3, 30), (9, 40)]
    w = Window.order_by("batch").groups_between(-1, 0)

    def by_row(call):
        return [v for _, (v,) in sorted(values(schema, rows, v=call))]

    assert by_row(tm.sum("amount").over(w)) == [25, 25, 45, 75, 75, 95]
    assert by_row(tm.sum("amount").over(w.exclude("ties"))) == [10, 15, 45, 45, 50, 95]
    days, w = [(3,), (10,), (10,), (11,), (19,)], Window.order_by("x")
    assert column(X, days, tm.count().over(w.rows_between(-3, 0))) == [1, 2, 3, 4, 4]
    assert column(X, days, tm.count().over(w.range_between(-3, 0))) == [1, 2, 2, 3, 1]
    assert column(X, days, tm.count().over(w.groups_between(-3, 0))) == [1, 3, 3, 4, 5]
    rows = [(1, 10), (1, 20), (2, 30), (2, 40), (3, 50)]
    assert [
        v for _, (v,) in sorted(values({"k": "int64", "v": "int64"}, rows, s=tm.sum("v").over(w.order_by("k"))))
    ] == [30, 30, 100, 100, 150]


# Ours: ties, and sums on their way beyond an int64.


def test_rows_with_one_hash_are_told_apart_by_their_columns():
    schema, rows = {"t": "int64", "a": "int64", "b": "int64"}, [(1, 5, N), (1, N, 5), (1, N, N)]
    found = values(schema, rows, n=row_number().over(Window.order_by("t")))
    in_order = [row for row, _ in found]
    assert in_order.index((1, N, 5)) + 1 == in_order.index((1, 5, N))  # NULL is left out of the hash, and sorts first


def test_means_of_decimals_whose_sum_needs_more_digits():
    rows = [(i, decimal.Decimal(10**14 - 1)) for i in range(12)]
    call = tm.avg("x").over(Window.rows_between(UNBOUNDED, UNBOUNDED))
    assert column({"i": "int64", "x": "decimal(14,0)"}, rows, call) == [decimal.Decimal("99999999999999.0000")] * 12
