"""Forgetting behind watermarks: what comes out is what the reference engine gives, which keeps all."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.forgetful_flows import BUCKET, KINDS, flow_of, inputs, many_updates, updates
from support.running import examples

import tidemill as tm
from tidemill.errors import ExpressionError, StepError
from tidemill.renderer.embedded.forgetting import Forgetting
from tidemill.renderer.embedded.reduce import ordered_windows
from tidemill.renderer.embedded.trace import spine as spine_module
from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time

BATCHINGS = [all_at_once, time_by_time, shuffled(0), shuffled(1)]


@pytest.fixture
def at_once(monkeypatch):
    """All that may be forgotten is, at the end of each step."""
    ended = Forgetting.end_step

    def end_step(self):
        ended(self)
        for operator in self._operators.values():
            for spine in operator.spines().values():
                if spine.gone is not None:
                    spine.exert()

    monkeypatch.setattr(Forgetting, "end_step", end_step)
    monkeypatch.setattr(spine_module, "TAIL", 2)


@pytest.mark.law("Operators that forget behind watermarks and clocks give what those give that keep all.")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_forgotten_is_not_missed(at_once, kind):
    given = {"a": many_updates(0), "b": many_updates(1)}
    check_equivalent(flow_of(kind), given, batchings=[time_by_time, shuffled(2)], passes=True)


BUCKETS = {
    "hour": "date_trunc('hour', ts)",
    "day": "cast(ts - interval 5 hours as date)",
    "seconds": "unix_seconds(ts) div 1000",
    "quarters": "floor(unix_seconds(ts) / 900)",
    "year": "year(ts + interval 1 day)",
}


@pytest.mark.parametrize("dtype", ["timestamp", "date", "int32"])
def test_columns_that_rise_with_times(at_once, dtype):
    """Groups by what is made of a timestamp, a date, a small number, each forgotten when its limit says so."""
    start = dt.datetime(2024, 12, 30, 22)
    value = {
        "timestamp": lambda n: start + n * dt.timedelta(minutes=17),
        "date": lambda n: start.date() + n * dt.timedelta(days=1),
        "int32": lambda n: n,
    }[dtype]
    delay = {"timestamp": dt.timedelta(minutes=30), "date": dt.timedelta(days=2), "int32": 2}[dtype]
    made = {
        "timestamp": BUCKETS,
        "date": {"month": "trunc(ts, 'month')", "next": "ts + 1", "at": "cast(ts as timestamp)"},
        "int32": {"wide": "cast(ts as int64) * 3 - 1", "narrow": "ts div 2"},
    }[dtype]
    flow = tm.Dataflow()
    x = flow.input("x", {"k": "string", "ts": dtype, "v": "int64"}, watermark=("ts", delay)).on_time("ts")
    for name, text in made.items():
        flow.output(name, x.group_by(bucket=text).agg(n=tm.count()))
    found = [((k, value(n), v), time, diff) for (k, n, v), time, diff in many_updates(3)]
    check_equivalent(flow, {"x": found}, batchings=[time_by_time], passes=True)
    assert flow.explain(passes=True).partition("forgets")[2].count("Reduce") == len(made)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_forgotten_is_not_missed_in_other_streams(at_once, kind):
    @examples(80, least=15)
    @given(a=updates(), b=updates(), passes=st.booleans())
    def check(a, b, passes):
        check_equivalent(flow_of(kind), {"a": a, "b": b}, batchings=BATCHINGS, passes=passes)

    check()


# -- how much is held -------------------------------------------------------------------------------------------------

KEEPS = {
    "delayed": "times move, so that a row behind the watermark may still come",
    "valid later": "likewise",
    "in a loop": "nothing is derived there",
    "one arrangement, read in a loop too": "what is late has partners there",
    "sessions of each key": "the values that a max is of",
    "windows that wait for rows": "a row of long ago is given when the next one of its key comes",
    "join with what is late": "what is late has partners that are kept",
    "band join of one bound": "rows may meet any that come later",
    "join by range and key": "likewise",
    "one arrangement of two": "what is late has partners that are kept",
}
"""Kinds that hold rows for ever, and why."""


def held(kind, steps):
    """How many rows operators hold, but for outputs, half-way and in the end."""
    flow, found = flow_of(kind), []
    with flow.start() as run:
        for time in range(steps):
            rows = [("ab"[i % 2], 8 * time + i % 4, i % 3) for i in range(12)]
            run.insert("a", [*rows, ("a", 4 * time, 7)])
            run.insert("b", rows)
            run.delete("a", rows[:3])
            run.advance()
            run.changes(kind)
            if time in (steps // 2, steps - 1):
                found.append(sum(o.state_rows + o.waiting for o in run.metrics() if o.kind != "Output"))
    return found


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in KEEPS])
def test_what_is_held_stays_as_much(monkeypatch, kind):
    monkeypatch.setattr(spine_module, "TAIL", 4)
    half, whole = held(kind, 100)
    assert whole < 1.25 * half + 30
    assert whole < 500  # of 1,600 rows and deletions, and 1,200 on the other side


def test_large_partitions_are_forgotten(monkeypatch):
    """They are in no spine."""
    monkeypatch.setattr(ordered_windows, "SMALL", 2)
    monkeypatch.setattr(ordered_windows, "LARGE", 4)
    flow, _, a, _ = inputs()
    flow.output("out", a.with_columns(before=tm.lag("v").over(tm.Window.partition_by(BUCKET).order_by("ts", "v"))))
    with flow.start() as run:
        for time in range(80):
            run.insert("a", [("a", 4 * time + i % 5, i) for i in range(12)])
            run.advance()
        inside = {o.kind: o.state_rows for o in run.metrics()}
        assert inside["Reduce"] < 100  # of 960


@pytest.mark.parametrize("kind", KEEPS)
def test_what_may_be_asked_for_is_kept(monkeypatch, kind):
    monkeypatch.setattr(spine_module, "TAIL", 4)
    half, whole = held(kind, 40)
    assert whole > 1.5 * half


# -- restarts, and other state ----------------------------------------------------------------------------------------

TOGETHER = ("groups", "distinct", "band join", "closed sessions", "windows", "left join", "by the watermark")


def follow(start, a, b, disturb):
    """All changes, time by time, and how many rows are held; ``disturb`` gives the run to go on with after each step."""
    run, found = start(), []
    for time in range(9):
        for name, updates_of in (("a", a), ("b", b)):
            run.update(name, [u for u in updates_of if u[1] == time])
        run.advance_to(time + 1)
        found += [sorted(map(repr, run.changes(name))) for name in TOGETHER]
        run.compact()
        found.append(sum(o.state_rows + o.waiting for o in run.metrics() if o.kind != "Output"))
        run = disturb(run)
    run.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"checkpoint_every": 2}, {"checkpoint_every": 1000}, {"in_memory": 3}])
def test_a_run_that_goes_on_forgets_the_same(at_once, tmp_path_factory, options):
    @examples(12, least=4)
    @given(a=updates(), b=updates())
    def check(a, b):
        folder = tmp_path_factory.mktemp("state")

        def start():
            return flow_of(*TOGETHER).start(tm.Embedded(folder, **options))

        def again(run):
            run.close()
            return start()

        undisturbed = follow(lambda: flow_of(*TOGETHER).start(), a, b, lambda run: run)
        found = follow(start, a, b, again)
        if "in_memory" in options:  # what is on the disk is not forgotten
            undisturbed, found = ([one for one in some if isinstance(one, list)] for some in (undisturbed, found))
        assert found == undisturbed

    check()


def test_saved_and_loaded_state_forgets_the_same(at_once, tmp_path):
    a = [(("a", t, 1), t, 1) for t in range(9)]

    def again(run):
        run.save(tmp_path / "state")
        run.close()
        return tm.load(tmp_path / "state", flow_of(*TOGETHER))

    assert follow(lambda: flow_of(*TOGETHER).start(), a, a, again) == follow(
        lambda: flow_of(*TOGETHER).start(), a, a, lambda run: run
    )


@pytest.mark.parametrize("fails", [3, 5])
def test_a_step_that_fails_takes_nothing_back(at_once, fails):
    """What a step would have had forgotten is there once it is discarded."""
    flow = flow_of(*TOGETHER)
    flow.output("checked", flow.input("c", {"i": "int64"}).select(j="1 div i"))
    with flow.start() as run, flow_of(*TOGETHER).start() as other:
        for time in range(9):
            if time == fails:
                run.insert("c", [(0,)])
                run.insert("a", [("a", 1000, 1)])
                with pytest.raises(ExpressionError):
                    run.advance_to(time + 1)
                run.discard()
            for one in (run, other):
                one.insert("a", [("a", 2 * time, 1), ("b", 2 * time - 1, 2)])
                one.insert("b", [("a", 2 * time + 1, 1)])
                one.advance_to(time + 1)
        for kind in TOGETHER:
            assert list(run.changes(kind)) == list(other.changes(kind))


def test_inputs_that_are_further_than_others(at_once):
    """A watermark that has gone ahead says nothing of rows of an input that is behind it."""
    rows = [("a", t, t % 3) for t in range(12)]
    with flow_of(*TOGETHER).start() as run, flow_of(*TOGETHER).start() as other:
        for time, row in enumerate(rows):
            run.insert("a", [row], time=time)
            other.insert("a", [row], time=time)
            run.advance_to(time + 1, input="a")
        for time, row in enumerate(rows):
            run.insert("b", [row], time=time)
            other.insert("b", [row], time=time)
            run.advance_to(time + 1, input="b")
            other.advance_to(time + 1)
        for kind in TOGETHER:
            assert sorted(map(repr, run.changes(kind))) == sorted(map(repr, other.changes(kind)))


@pytest.mark.parametrize("kind", ["distinct", "groups", "band join"])
def test_what_is_on_the_disk_is_forgotten_where_files_are_merged(kind, tmp_path):
    with flow_of(kind).start(tm.Embedded(tmp_path, in_memory=20, keep_inputs=False)) as run:
        for time in range(60):
            run.insert("a", [("a", 4 * time + i, i) for i in range(8)])
            run.insert("b", [("a", 4 * time + i, i) for i in range(8)])
            run.advance()
            run.changes(kind)
        inside = [o for o in run.metrics() if o.kind != "Output"]
        assert sum(o.state_rows for o in inside) < 200  # of 480 rows on a side


def test_compacting_forgets():
    with flow_of("distinct").start() as run:
        run.insert("a", [("a", t, 0) for t in range(100)])
        run.advance()
        assert run.compact() >= 90
        assert sum(o.state_rows for o in run.metrics() if o.kind == "Threshold") < 10


# -- clocks -----------------------------------------------------------------------------------------------------------


def clocked(**options):
    flow = tm.Dataflow()
    calls = flow.input("calls", {"who": "string", "since": "int64 not null"})
    clock = flow.input("clock", {"now": "int64"}, unique=True, **options)
    here = calls.temporal_filter("since", "since + 5", clock=clock.select(now="now + 1"))
    flow.output("here", here)
    flow.output("who", here.with_columns(over="since + 5").select("who", "over").distinct())
    return flow


def held_behind_a_clock(monkeypatch, **options):
    monkeypatch.setattr(spine_module, "TAIL", 4)
    with clocked(**options).start() as run:
        for now in range(200):
            run.insert("calls", [(f"user {now % 7}", now + 2), ("late", now - 20)])
            run.insert("clock", [(now,)])
            run.delete("clock", [(now - 1,)] if now else [])
            run.advance()
        assert len(list(run.snapshot("here"))) == 5
        return sum(o.state_rows for o in run.metrics() if o.kind == "OrderedDynamicFilter")


def test_rows_are_forgotten_behind_a_clock_that_never_goes_back(monkeypatch):
    assert held_behind_a_clock(monkeypatch, monotone="increasing") < 60
    assert held_behind_a_clock(monkeypatch) > 700  # two orders of 400 rows


def test_a_clock_that_goes_back_is_refused():
    with clocked(monotone="increasing").start() as run:
        run.insert("clock", [(5,)])
        run.advance()
        run.delete("clock", [(5,)])
        run.insert("clock", [(4,)])
        with pytest.raises(StepError, match="declared monotone='increasing', and its row \\(6,\\) became \\(5,\\)"):
            run.advance()


@examples(60, least=8)
@given(
    calls=st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 12), st.integers(0, 6), st.sampled_from([1, 1, -1]))
    ),
    ticks=st.lists(st.integers(0, 3), min_size=7, max_size=7),
)
def test_what_a_clock_has_passed_is_not_missed(calls, ticks):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spine_module, "TAIL", 1)
        now, clock = 0, []
        for time, tick in enumerate(ticks):
            clock += [((now,), time, -1)] if time else []
            now += tick
            clock.append(((now,), time, 1))
        given = {"calls": [((who, since), time, diff) for who, since, time, diff in calls], "clock": clock}
        check_equivalent(clocked(monotone="increasing"), given, batchings=BATCHINGS, passes=True)


# -- what is said of it -----------------------------------------------------------------------------------------------


def test_explain_says_who_forgets_what():
    flow = flow_of("band join", "groups")
    text = flow.explain(passes=True)
    assert text.endswith(
        "forgets behind watermarks and clocks:\n"
        "  #8 Arrange: ts < #6.watermark - 3\n"
        "  #9 Arrange: us < #4.watermark - 2\n"
        "  #14 Reduce: bucket < #4.watermark DIV 4"
    )
    assert "forgets" not in flow.explain()
    assert "forgets" not in flow_of("delayed").explain(passes=True)


def test_late_rows_are_counted_and_given():
    flow, raw, a, _ = inputs()
    flow.output("on time", a)
    flow.output("late", raw.late_rows("ts"))
    with flow.start() as run:
        run.insert("a", [("a", 10, 0), ("a", 1, 0)])
        run.advance()
        run.insert("a", [("a", 7, 0), ("a", 8, 0)])
        run.delete("a", [("a", 1, 0)])
        run.advance()
        assert list(run.changes("on time")) == [(("a", 1, 0), 0, 1), (("a", 10, 0), 0, 1), (("a", 8, 0), 1, 1)]
        assert list(run.changes("late")) == [(("a", 1, 0), 1, -1), (("a", 7, 0), 1, 1)]
        assert {o.late for o in run.metrics() if o.kind == "LateRows"} == {2}
