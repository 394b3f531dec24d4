"""Known values of windows with a watermark, on every engine: RisingWave's five rows and its tests, and what is refused."""

import datetime as dt

import pytest
from support.running import start

import tidemill as tm
from tidemill.errors import StepError, TimeError

FIVE = dt.timedelta(minutes=5)
TWELVE = dt.timedelta(hours=12)


def at(hour, minute):
    return dt.datetime(2024, 1, 1, hour, minute)


def changes(run, output):
    return sorted(((*row, diff) for row, _, diff in run.changes(output)), key=repr)


# The rows of the article, whose sixth comes between two of the five.

ROWS = [(at(10, 0), 100, 5), (at(10, 2), 101, 3), (at(10, 10), 103, 9), (at(10, 17), 104, 0)]
BETWEEN = (at(10, 6), 102, 8)
P = tm.Window.order_by("ts")
CALLS = {
    "before": tm.sum("x").over(P.rows_between(-1, 0)),
    "after": tm.sum("x").over(P.rows_between(0, 1)),
    "next": tm.lead("x", 1).over(P),
}


def article(emit):
    flow = tm.Dataflow()
    t = flow.input("t", {"ts": "timestamp", "pk": "int64", "x": "int64"}, watermark=("ts", FIVE))
    flow.output("out", t.with_columns(**CALLS, emit=emit).drop("ts"))
    return flow


def test_on_update_a_row_in_between_changes_its_neighbours(engine):
    with start(article("on_update"), engine) as run:
        run.insert("t", ROWS)
        run.advance()
        assert sorted(run.snapshot("out")) == [
            (100, 5, 5, 8, 3), (101, 3, 8, 12, 9), (103, 9, 12, 9, 0), (104, 0, 9, 0, None),
        ]  # fmt: skip
        run.changes("out")
        run.insert("t", [BETWEEN])
        run.advance()
        assert changes(run, "out") == [
            (101, 3, 8, 11, 8, 1), (101, 3, 8, 12, 9, -1), (102, 8, 11, 17, 9, 1), (103, 9, 12, 9, 0, -1),
            (103, 9, 17, 9, 0, 1),
        ]  # fmt: skip


def test_on_close_each_row_comes_once(engine):
    """At 10:17 the watermark is 10:12: of the rows before it, the last one waits for its frame's last row."""
    with start(article("on_close"), engine) as run:
        run.insert("t", ROWS[:2])
        run.advance()
        assert changes(run, "out") == []  # the watermark is 9:57
        run.insert("t", ROWS[2:3])
        run.advance()  # 10:05: two rows are released, and the first one's frame is closed
        assert changes(run, "out") == [(100, 5, 5, 8, 3, 1)]
        run.insert("t", [BETWEEN])
        run.insert("t", ROWS[3:])
        run.advance()
        assert changes(run, "out") == [(101, 3, 8, 11, 8, 1), (102, 8, 11, 17, 9, 1)]
        run.insert("t", [BETWEEN])
        run.advance()  # late now
        assert changes(run, "out") == []
        assert [o.late for o in run.metrics() if o.kind == "SortBuffer"] == [1]


# RisingWave's tests of EMIT ON WINDOW CLOSE.

FIRST = [
    (at(16, 51), 1, 100), (at(16, 56), 8, 100), (at(17, 30), 3, 200), (at(17, 35), 5, 100), (at(17, 59), 4, 100),
    (at(18, 1), 6, 200),
]  # fmt: skip
SECOND = [(at(18, 10), 7, 100), (at(18, 11), 9, 200)]
BY_BAR = tm.Window.partition_by("bar").order_by("tm")


def known(**calls):
    flow = tm.Dataflow()
    t = flow.input("t", {"tm": "timestamp", "foo": "int64", "bar": "int64"}, watermark=("tm", FIVE))
    flow.output("out", t.with_columns(**calls, emit="on_close").drop("foo", "bar"))
    return flow


def after_each(flow, engine):
    with start(flow, engine) as run:
        for rows in (FIRST, SECOND):
            run.insert("t", rows)
            run.advance()
            yield sorted(row for row, _, _ in run.changes("out"))


def test_several_frames_in_one(engine):
    flow = known(
        a=tm.lag("foo", 2).over(BY_BAR),
        b=tm.max("foo").over(BY_BAR.rows_between(-1, 1)),
        c=tm.sum("foo").over(BY_BAR.rows_between(-2, 0).exclude("current row")),
    )
    first, second = after_each(flow, engine)
    assert first == [(at(16, 51), None, 8, None), (at(16, 56), None, 8, 1)]
    assert second == [(at(17, 30), None, 6, None), (at(17, 35), 1, 8, 9)]


def test_leads_wait_for_the_furthest(engine):
    first, second = after_each(known(a=tm.lead("foo", 1).over(BY_BAR), b=tm.lead("foo", 3).over(BY_BAR)), engine)
    assert first == []
    assert second == [(at(16, 51), 8, 4)]


def test_row_numbers_go_on(engine):
    first, second = after_each(known(n=tm.row_number().over(BY_BAR)), engine)
    assert first == [(at(16, 51), 1), (at(16, 56), 2), (at(17, 30), 1), (at(17, 35), 3)]
    assert second == [(at(17, 59), 4), (at(18, 1), 2)]


def test_ranges_wait_for_the_watermark(engine):
    """17:30's and 17:35's frames end before 17:56; 17:59's does when the watermark has passed 18:09."""
    frame = BY_BAR.range_between(-dt.timedelta(minutes=30), dt.timedelta(minutes=10))
    first, second = after_each(known(n=tm.count().over(frame)), engine)
    assert first == [(at(16, 51), 2), (at(16, 56), 2), (at(17, 30), 1), (at(17, 35), 1)]
    assert second == []


def test_a_row_that_waits_longer_for_another_row_than_for_the_watermark(engine):
    """Its range is closed at time 1, the row behind it comes at time 2: nothing of it is late."""
    flow = tm.Dataflow()
    x = flow.input("x", {"k": "string", "i": "int64"}, watermark=("i", 0))
    w = tm.Window.partition_by("k").order_by("i")
    calls = {"next": tm.lead("i").over(w), "near": tm.count().over(w.range_between(-2, 2))}
    flow.output("out", x.with_columns(**calls, emit="on_close"))
    with start(flow, engine) as run:
        run.update("x", [(("a", 1), 0, 1), (("b", 9), 1, 1), (("a", 10), 2, 1), (("b", 30), 3, 1)])
        run.advance_to(5)
        assert list(run.changes("out")) == [(("a", 1, 10, 1), 3, 1)]


def test_ranges_of_days(engine):
    """A number of days behind a date, and hours behind it, which reach no other date."""
    flow = tm.Dataflow()
    x = flow.input("x", {"d": "date"}, watermark=("d", dt.timedelta(days=1)))
    w = tm.Window.order_by("d")
    calls = {"two": tm.count().over(w.range_between(-1, 2)), "hours": tm.count().over(w.range_between(-TWELVE, TWELVE))}
    flow.output("out", x.with_columns(**calls, emit="on_close"))
    with start(flow, engine) as run:
        run.insert("x", [(dt.date(2024, 1, day),) for day in (1, 2, 3, 5, 6)])
        run.advance()  # the watermark is the 5th: what ends on the 4th is closed
        assert list(run.snapshot("out")) == [(dt.date(2024, 1, 1), 3, 1), (dt.date(2024, 1, 2), 3, 1)]


# The watermark.


def sorter(watermark):
    flow = tm.Dataflow()
    x = flow.input("x", {"i": "int64", "v": "string"}, watermark=watermark)
    flow.output("sorted", x.sort_buffer("i"))
    flow.output("late", x.late_rows("i"))
    return flow


def test_a_row_is_late_by_the_watermark_of_the_time_before(engine):
    """A row as old as that of its own time moves on is released at once; a time later it would be late."""
    with start(sorter(("i", 2)), engine) as run:
        run.update("x", [((10, "a"), 0, 1), ((5, "b"), 0, 1), ((7, "c"), 1, 1), ((8, "d"), 1, 1), ((8, "d"), 2, -1)])
        run.advance_to(3)
        assert list(run.changes("sorted")) == [((5, "b"), 0, 1)]
        assert list(run.changes("late")) == [((7, "c"), 1, 1)]
        run.watermark("x", 100)
        run.advance()
        assert list(run.changes("sorted")) == [((10, "a"), 3, 1)]


def test_a_deletion_of_what_was_released_is_late_and_counted(engine):
    with start(sorter("i"), engine) as run:
        run.insert("x", [(1, "a"), (1, "a"), (9, "b")])
        run.watermark("x", 5)
        run.advance()
        run.delete("x", [(1, "a")])
        run.delete("x", [(9, "b")])
        run.advance()
        assert sorted(run.snapshot("sorted")) == [(1, "a"), (1, "a")]
        assert list(run.changes("late")) == [((1, "a"), 1, -1)]
        assert {o.late for o in run.metrics() if o.kind in ("SortBuffer", "LateRows")} == {1}


def test_what_cancels_within_a_time_moves_no_watermark(engine):
    with start(sorter(("i", 0)), engine) as run:
        run.update("x", [((50, "a"), 0, 1), ((50, "a"), 0, -1), ((3, "b"), 0, 1), ((2, "c"), 0, 1)])
        run.advance()
        assert list(run.snapshot("sorted")) == [(2, "c")]


def test_null_is_less_than_all(engine):
    with start(sorter("i"), engine) as run:
        run.insert("x", [(None, "a")])
        run.advance()
        assert list(run.snapshot("sorted")) == []
        run.watermark("x", -(2**63) + 1)
        run.advance()
        assert list(run.snapshot("sorted")) == [(None, "a")]
        run.insert("x", [(None, "b")])
        run.advance()
        assert list(run.snapshot("late")) == [(None, "b")]


def test_a_watermark_that_goes_back_is_refused_when_it_is_told(engine):
    with start(sorter("i"), engine) as run:
        run.watermark("x", 5)
        with pytest.raises(TimeError, match=r"'x'.*a watermark of 4 at 0 goes back: 5 was told"):
            run.watermark("x", 4)
        run.watermark("x", 5)
        run.watermark("x", 9, time=2)
        with pytest.raises(TimeError, match="goes back: 9 was told"):
            run.watermark("x", 10, time=1)
        run.watermark("x", 7, time=1)
        run.advance_to(3)
        run.discard()
        run.watermark("x", 9)


def test_a_watermark_that_goes_back_all_the_same_is_refused_by_the_step(engine):
    with start(sorter("i"), engine) as run:
        run.insert("x", [(3, "a"), (6, "b")])
        run.watermark("x", 5)
        run.advance()
        run.update("x.watermark", [((4,), 1, 1)])
        with pytest.raises(StepError, match="a watermark of 4 was told for time 1, after 5 .* cannot go back"):
            run.advance()
        run.discard()
        run.watermark("x", 8)
        run.advance()
        assert sorted(run.snapshot("sorted")) == [(3, "a"), (6, "b")]


def test_an_input_that_moves_alone_takes_its_watermark_along(engine):
    flow = sorter("i")
    flow.output("y", flow.input("y", {"i": "int64"}))
    with start(flow, engine) as run:
        run.insert("x", [(3, "a")])
        run.watermark("x", 5)
        run.advance_to(2, input="x")
        assert list(run.snapshot("sorted")) == [(3, "a")]
        run.close_input("x")
        assert not run.frontier("sorted").elements


@pytest.mark.parametrize(
    ("dtype", "delay", "values", "told"),
    [
        ("int32", 1, [5, 7], 8),
        ("date", dt.timedelta(days=1), [dt.date(2024, 1, 1), dt.date(2024, 1, 9)], dt.date(2024, 2, 1)),
        ("date", tm.interval(days=1), [dt.date(1, 1, 1), dt.date(1, 1, 3)], dt.date(9999, 12, 31)),
        ("timestamp", dt.timedelta(days=10**6), [at(1, 0), at(2, 0)], dt.datetime.max),
        ("int64", 2**62, [-(2**62), 2**62 + 1], 2**63 - 1),
    ],
)
def test_types_and_their_ends(engine, dtype, delay, values, told):
    flow = tm.Dataflow()
    flow.output("sorted", flow.input("x", {"i": dtype}, watermark=("i", delay)).sort_buffer("i"))
    with start(flow, engine) as run:
        run.insert("x", [(v,) for v in values])
        run.advance()
        first = len(run.snapshot("sorted"))
        assert first == (0 if dtype == "timestamp" else 1)
        run.watermark("x", told)
        run.advance()
        assert sorted(run.snapshot("sorted")) == [(v,) for v in values]


# Sessions.

TEN = dt.timedelta(minutes=10)
TEN_DAYS = dt.timedelta(days=10)


def of_sessions(emit):
    flow = tm.Dataflow()
    t = flow.input("t", {"tm": "timestamp", "foo": "int64", "bar": "int64"}, watermark=("tm", FIVE))
    found = t.with_columns(start=tm.session("tm", TEN).over(BY_BAR), emit=emit)
    flow.output("rows", found)
    flow.output("out", found.group_by("bar", "start").agg(end=tm.max("tm"), n=tm.count()))
    return flow


def test_sessions_on_close_come_whole(engine):
    """At 17:56 no row comes any more that would go on with those that ended before 17:46.

    RisingWave gives them when the partition's next row is released, at 18:06 in its test: it waits for a row.
    """
    with start(of_sessions("on_close"), engine) as run:
        run.insert("t", FIRST)
        run.advance()
        assert changes(run, "out") == [
            (100, at(16, 51), at(16, 56), 2, 1), (100, at(17, 35), at(17, 35), 1, 1),
            (200, at(17, 30), at(17, 30), 1, 1),
        ]  # fmt: skip
        run.insert("t", SECOND)
        run.advance()
        assert changes(run, "out") == []
        run.watermark("t", at(18, 20))
        run.advance()
        assert changes(run, "out") == [(100, at(17, 59), at(17, 59), 1, 1)]
        run.watermark("t", at(19, 0))
        run.advance()
        assert changes(run, "out") == [(100, at(18, 10), at(18, 10), 1, 1), (200, at(18, 1), at(18, 11), 2, 1)]
        assert {diff for _, _, diff in run.changes("rows")} == {1}


def test_sessions_on_update_grow(engine):
    with start(of_sessions("on_update"), engine) as run:
        run.insert("t", FIRST)
        run.advance()
        run.changes("out")
        run.insert("t", [(at(18, 8), 7, 100), (at(18, 10), 9, 200)])
        run.advance()
        assert changes(run, "out") == [
            (100, at(17, 59), at(17, 59), 1, -1), (100, at(17, 59), at(18, 8), 2, 1),
            (200, at(18, 1), at(18, 1), 1, -1), (200, at(18, 1), at(18, 10), 2, 1),
        ]  # fmt: skip
        run.delete("t", [(at(17, 59), 4, 100)])
        run.advance()
        assert changes(run, "out") == [(100, at(17, 59), at(18, 8), 2, -1), (100, at(18, 8), at(18, 8), 1, 1)]


def test_a_row_just_a_gap_after_another_one_goes_on_with_its_session(engine):
    with start(of_sessions("on_close"), engine) as run:
        run.insert("t", [(at(10, 0), 1, 1), (at(10, 10), 2, 1), (at(10, 20), 3, 1), (at(10, 31), 4, 1)])
        run.insert("t", [(at(12, 0), 5, 1), (None, 6, 1)])
        run.advance()
        whole = [(1, at(10, 0), at(10, 20), 3, 1), (1, at(10, 31), at(10, 31), 1, 1), (1, None, None, 1, 1)]
        assert changes(run, "out") == sorted(whole, key=repr)


@pytest.mark.parametrize("emit", ["on_update", "on_close"])
@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize(
    ("dtype", "gap", "values", "starts"),
    [
        ("date", TEN_DAYS, [dt.date.min, dt.date(2024, 1, 1), dt.date.max, dt.date.max], [0, 1, 2, 2]),
        ("timestamp", TEN, [at(1, 0), at(1, 10), at(1, 21), dt.datetime.max, dt.datetime.max], [0, 0, 2, 3, 3]),
        ("timestamp", TEN_DAYS * 10**6, [at(1, 0), dt.datetime.max], [0, 0]),
        ("int32", 10, [-(2**31), 2**31 - 12, 2**31 - 1, 2**31 - 1], [0, 1, 2, 2]),
        ("int32", 2**40, [-(2**31), 2**31 - 1], [0, 0]),
        ("int64", 2**63 - 1, [-1, 0, 2**63 - 1], [0, 0, 0]),
    ],
)
def test_sessions_at_the_ends_of_types(engine, dtype, gap, values, starts, numbered, emit):  # noqa: PLR0917 - parameters
    """The last value of a type is what many have for "never": a gap after it there is no value."""
    flow = tm.Dataflow()
    x = flow.input("x", {"i": dtype}, watermark="i")
    w = tm.Window.order_by("i")
    calls = {"start": tm.session("i", gap).over(w)} | ({"number": tm.row_number().over(w)} if numbered else {})
    flow.output("out", x.with_columns(**calls, emit=emit))
    whole = [i for i, start in enumerate(starts) if start < starts[-1]] if emit == "on_close" else range(len(starts))
    with start(flow, engine) as run:
        run.insert("x", [(v,) for v in values])
        run.watermark("x", values[-1])
        run.advance()
        assert sorted(row[:2] for row in run.snapshot("out")) == [(values[i], values[starts[i]]) for i in whole]
