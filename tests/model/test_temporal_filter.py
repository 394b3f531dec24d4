"""Temporal filters: rows come and go as time passes, by the user's time, or by a clock that is a collection."""

import datetime as dt
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import COORDINATES, KV, assert_same, at, examples, grid, new_flow, start, traces

import tidemill as tm
from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time, updates

PERIOD = {"begin": "int64", "end": "int64"}


def of_rows(coordinates=1, begin="begin", end="end", **options):
    flow = new_flow(coordinates)
    flow.output("valid", flow.input("rows", PERIOD).temporal_filter(begin, end, **options))
    return flow


def test_rows_are_there_while_they_are_valid(engine):
    """What is known of `mz_now() BETWEEN a AND b`, both ends included; so b + 1 is the end here."""
    rows = [(1, 10), (1, 2), (2, 13), (3, 2), (0, 10), (5, 2**63 - 2)]
    with start(of_rows(end="end + 1"), engine, keep=20) as run:
        run.insert("rows", rows)
        run.advance_to(15)
        assert list(run.snapshot("valid", at=2)) == [(0, 10), (1, 2), (1, 10), (2, 13)]
        assert list(run.snapshot("valid", at=3)) == [(0, 10), (1, 10), (2, 13)]
        assert list(run.snapshot("valid", at=11)) == [(2, 13), (5, 2**63 - 2)]
        assert list(run.snapshot("valid", at=14)) == [(5, 2**63 - 2)]
        run.insert("rows", [(2**62, None), (2**62 - 1, None)])
        run.advance_to(2**62 - 1)
        run.close_inputs()
        assert list(run.snapshot("valid")) == [(5, 2**63 - 2), (2**62 - 1, None)]  # no time is beyond 2**62


def test_an_end_beyond_all_times_overflows(engine):
    with start(of_rows(end="end + 1"), engine) as run:
        run.insert("rows", [(5, 2**63 - 1)])
        with pytest.raises(
            tm.errors.ExpressionError, match=r"row \(5, 9223372036854775807\): overflow in `.*end.* \+ 1`"
        ):
            run.advance_to(1)


def test_null_is_no_bound(engine):
    with start(of_rows(), engine) as run:
        run.update("rows", [((None, 2), 1, 1), ((3, None), 1, 1), ((None, None), 4, 1), ((-5, 9), 2, 1)])
        run.advance_to(6)
        assert list(run.changes("valid")) == [
            ((None, 2), 1, 1), ((None, 2), 2, -1), ((-5, 9), 2, 1), ((3, None), 3, 1), ((None, None), 4, 1),
        ]  # fmt: skip


@pytest.mark.parametrize("bounds", [{"begin": None}, {"end": None}])
def test_one_bound_is_enough(engine, bounds):
    with start(of_rows(**bounds), engine) as run:
        run.insert("rows", [(2, 3)])
        run.advance_to(6)
        assert list(run.changes("valid")) == (
            [((2, 3), 0, 1), ((2, 3), 3, -1)] if "begin" in bounds else [((2, 3), 2, 1)]
        )


def test_a_row_that_comes_late_is_there_from_then_on_and_not_after_its_end(engine):
    with start(of_rows(), engine) as run:
        run.update("rows", [((1, 5), 3, 1), ((1, 3), 3, 1), ((0, 2), 4, 2)])
        run.advance_to(9)
        assert list(run.changes("valid")) == [((1, 5), 3, 1), ((1, 5), 5, -1)]


def test_a_row_that_is_deleted_goes_at_once_and_not_again(engine):
    with start(of_rows(), engine) as run:
        run.update("rows", [((1, 9), 0, 1), ((1, 9), 4, -1), ((5, 9), 0, 1), ((5, 9), 3, -1)])
        run.advance_to(20)
        assert list(run.changes("valid")) == [((1, 9), 1, 1), ((1, 9), 4, -1)]


def test_a_row_that_ends_before_it_begins_is_named(engine):
    with start(of_rows(), engine) as run:
        run.insert("rows", [(3, 3), (4, 5)])
        run.advance_to(1)  # no time at all is none that is wrong
        run.insert("rows", [(3, 1)])
        message = (
            r"row \(3, 1\): valid_to 1 is before valid_from 3; filter out, or correct, rows that end before they begin"
        )
        for _ in range(2):
            with pytest.raises(tm.errors.ExpressionError, match=message) as found:
                run.advance_to(2)
        assert (found.value.row, found.value.time) == ((3, 1), 1)
        run.delete("rows", [(3, 1)])
        run.advance_to(5)
        assert list(run.changes("valid")) == [((4, 5), 4, 1)]


def test_one_of_several_coordinates(engine):
    with start(of_rows(2, coordinate="event"), engine) as run:
        run.update("rows", [((2, 4), (0, 1), 1), ((2, 4), (3, 2), -1)])
        run.close_inputs()
        assert list(run.changes("valid")) == [
            ((2, 4), (2, 1), 1), ((2, 4), (3, 2), -1), ((2, 4), (4, 1), -1), ((2, 4), (4, 2), 1),
        ]  # fmt: skip


@pytest.mark.law("At every time, a temporal filter holds the rows whose validity includes it.")
@pytest.mark.parametrize("coordinates", [1, 2, 3])
@examples(40)
@given(data=st.data())
def test_at_every_time_the_rows_that_are_valid(engine, coordinates, data):
    axis = data.draw(st.integers(0, coordinates - 1))
    names = COORDINATES[coordinates]
    name = names if isinstance(names, str) else names[axis]
    found = data.draw(updates(PERIOD, coordinates, values={"begin": [None, -1, 0, 1, 3], "end": [None, 3, 4, 6]}))
    (valid,) = traces(
        engine,
        lambda rows: rows.temporal_filter("begin", "end", coordinate=name),
        {"rows": found},
        coordinates=coordinates,
        schema={"rows": PERIOD},
    )
    for time in grid(found, [(None, 8 if coordinates == 1 else (8,) * coordinates, 0)], valid):
        now = time if isinstance(time, int) else time[axis]
        wanted = {
            row: n
            for row, n in at(found, time).items()
            if (row[0] is None or row[0] <= now) and (row[1] is None or now < row[1])
        }
        assert at(valid, time) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", [1, 2])
@examples(30)
@given(data=st.data())
def test_engines_agree_on_out_of_order_cancelling_and_empty_rounds(engines, coordinates, data):
    """In front of joins, reduces and a loop, and in the loop; some rows end before they begin."""
    flow = new_flow(coordinates)
    a, b = flow.input("a", KV), flow.input("b", KV)
    name = flow.graph.coordinates[0]
    valid = a.temporal_filter("k", "v + 2", coordinate=name)
    flow.output("valid", valid)
    flow.output("joined", valid.join(b, on="k").filter("v > 0").select("v_right"))
    flow.output("counted", valid.group_by("k").agg(n=tm.count(), most=tm.max("v")))
    flow.output("loop", b.distinct().iterate(
        lambda here: here.join(valid, on={"v": "k"}).select("k", v="v_right")
        .temporal_filter(None, "v + 4", coordinate=name).concat(b).distinct(), error_at=30,
    ))  # fmt: skip
    found = {n: data.draw(updates(KV, coordinates, max_size=10, non_negative=True), label=n) for n in "ab"}
    check_equivalent(
        flow, found, engines=engines, batchings=[all_at_once, time_by_time, shuffled(data.draw(st.integers(0, 99)))]
    )
    check_equivalent(flow, found, engines=engines, batchings=[time_by_time], passes=True)


@examples(20)
@given(data=st.data())
def test_a_constant_validity_is_a_delay_taken_back(engine, data):
    build = lambda a: [a.temporal_filter(None, "4"), a.concat(a.select("k", "v").temporal_filter("4", None).negate())]  # noqa: E731
    assert_same(engine, build, {"a": data.draw(updates(KV))})


# -- by a clock ------------------------------------------------------------------------------------------------------


def hours(n):
    return dt.datetime(2026, 1, 1) + n * dt.timedelta(hours=1)


def by_clock():
    flow = new_flow()
    events = flow.input("events", {"what": "string", "ts": "timestamp"})
    clock = flow.input("clock", {"now": "timestamp"}, unique=True)
    flow.output("recent", events.temporal_filter("ts", "ts + interval 24 hours", clock=clock).select("what"))
    return flow


def test_the_last_24_hours_by_a_clock(engine):
    flow = new_flow()
    events = flow.input("events", {"what": "string", "ts": "timestamp"})
    clock = flow.input("clock", {"now": "timestamp"})
    flow.output("recent", events.temporal_filter("ts", "ts + interval 24 hours", clock=clock).select("what"))
    with start(flow, engine) as run:
        run.insert("events", [("a", hours(1)), ("b", hours(5)), ("c", hours(30)), ("always so far", None)])
        run.advance()
        assert list(run.changes("recent")) == []  # no clock, no time
        run.insert("clock", [(hours(6),)])
        run.advance()
        assert [(row, n) for row, _, n in run.changes("recent")] == [(("a",), 1), (("always so far",), 1), (("b",), 1)]
        run.update("clock", [((hours(6),), 2, -1), ((hours(29),), 2, 1)])
        run.advance()
        assert [(row, n) for row, _, n in run.changes("recent")] == [(("a",), -1), (("b",), -1)]


@examples(20)
@given(data=st.data())
@pytest.mark.parametrize("bounds", [("begin", "end"), ("`begin` + 1", None), (None, "end")])
def test_by_a_clock_rows_are_those_of_all_pairs_that_hold(engine, bounds, data):
    """The clock, of one row or none, moves both ways; bounds may be missing."""
    flow = new_flow()
    rows, clock = flow.input("rows", PERIOD), flow.input("clock", {"now": "int64"})
    begin, end = bounds
    flow.output("valid", rows.temporal_filter(begin, end, clock=clock))
    quoted = {"begin": "`begin`", "end": "`end`"}
    holds = [
        f"{quoted.get(b, b)} is null or {quoted.get(b, b)} {how} now"
        for b, how in ((begin, "<="), (end, ">"))
        if b is not None
    ]
    flow.output("pairs", rows.cross_join(clock).filter(*holds).select(*PERIOD))
    found = data.draw(updates(PERIOD, values={"begin": [None, 0, 1, 3], "end": [None, 3, 4, 6]}))
    times = sorted({time for _, time, _ in found})
    shown = data.draw(st.lists(st.sampled_from([None, 0, 2, 3, 4, 7]), min_size=len(times), max_size=len(times)))
    with start(flow, engine) as run:
        before = None
        for time, now in zip(times, shown, strict=True):
            run.update("clock", [((n,), time, d) for n, d in ((before, -1), (now, 1)) if n is not None])
            before = now
            run.update("rows", [u for u in found if u[1] == time])
            run.advance_to(time + 1)
            assert list(run.changes("valid")) == list(run.changes("pairs"))


def test_a_moved_clock_touches_the_rows_whose_bounds_it_passes():
    with by_clock().start() as run:
        run.insert("events", [(f"e{n}", hours(n / 100)) for n in range(10_000)])
        run.insert("clock", [(hours(50),)])
        run.advance()
        assert len(list(run.changes("recent"))) == 2400
        given = {m.id: m.records_out for m in run.metrics()}
        run.delete("clock", [(hours(50),)])
        run.insert("clock", [(hours(50.1),)])
        run.advance()
        touched = sum(m.records_out - given[m.id] for m in run.metrics())
        assert len(list(run.changes("recent"))) == 20  # ten come, ten go
        assert touched < 200


# -- what is not accepted ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, tm.errors.SchemaError, "neither valid_from nor valid_to: give a column or an expression for one of them"),
        (
            {"valid_from": "s"},
            tm.errors.SchemaError,
            "valid_from s is of type string: expected an integer, as times",
        ),
        (
            {"valid_to": "t"},
            tm.errors.SchemaError,
            "valid_to t is of type timestamp: .* or a clock=... to compare it with",
        ),
        ({"valid_to": "n", "coordinate": "epock"}, tm.errors.TimeError, "coordinate='epock' is none of epoch"),
        ({"valid_to": "lost"}, tm.errors.UnknownColumnError, "lost"),
    ],
)
def test_what_is_no_validity(arguments, error, message):
    rows = new_flow().input("rows", {"n": "int64", "s": "string", "t": "timestamp"})
    with pytest.raises(error, match=message):
        rows.temporal_filter(**arguments)


def test_which_coordinate_has_to_be_said():
    with pytest.raises(tm.errors.TimeError, match=r"2 coordinates \(event, correction\): say .* coordinate='event'"):
        of_rows(2)


def test_a_clock_that_shows_two_times_is_named_as_the_user_wrote_it(engine):
    flow = new_flow()
    rows, clock = flow.input("rows", PERIOD), flow.input("clock", {"now": "int64"})
    begin, end = list(PERIOD)[-2:]
    flow.output("valid", rows.temporal_filter(begin, end, clock=clock))
    with start(flow, engine) as run:
        run.insert("clock", [(1,), (2,)])
        with pytest.raises(tm.errors.StepError) as refused:
            run.advance()
    message = (
        r"temporal_filter.* \(.*test_temporal_filter\.py:\d+\): the clock has more than one row, \(1,\) and \(2,\)"
    )
    assert re.search(message, str(refused.value))
    assert "DynamicFilter" not in str(refused.value)
    assert "clock.agg(v=tm.max('v'))" in str(refused.value)


def test_what_is_no_clock():
    flow = new_flow()
    rows = flow.input("rows", PERIOD)
    with pytest.raises(
        tm.errors.SchemaError, match=r"the clock has the columns .*: expected one, that shows what time"
    ):
        rows.temporal_filter("begin", clock=rows)
    with pytest.raises(tm.errors.SchemaError, match="coordinate='epoch' and a clock: .* give one"):
        rows.temporal_filter("begin", clock=flow.input("clock", {"now": "int64"}), coordinate="epoch")
