"""What waits for a watermark is state: saved, restored, spilled, rolled back; and no more than open frames need."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.closing_windows import ROW, V, W, told, updates
from support.running import examples

import tidemill as tm
from tidemill.errors import ExpressionError
from tidemill.testing import check_equivalent

CALLS = {
    "number": tm.row_number().over(W),
    "place": tm.dense_rank().over(W),
    "some": tm.list("v").over(W.rows_between(-2, 1)),
    "groups": tm.sum("v").over(W.groups_between(-1, 1).exclude("ties")),
    "near": tm.count().over(W.range_between(-3, 2)),
}


def flow_of_all():
    """Sliding windows, windows that keep all, what is sorted, what is late; and a division for steps to fail by."""
    flow = tm.Dataflow("all")
    x = flow.input("x", ROW, watermark=("ts", 2))
    flow.output("sliding", x.with_columns(**CALLS, emit="on_close"))
    short = {"mean": tm.avg("v").over(W.rows_between(-2, 0)), "before": tm.lag("v").over(W)}
    flow.output("short", x.with_columns(**short, emit="on_close"))
    both = {"sum": tm.sum("v").over(W.rows_between(tm.UNBOUNDED, 1)), "next": tm.lead("v").over(V)}
    flow.output("waiting", x.with_columns(**both, emit="on_close"))
    flow.output("sessions", x.with_columns(start=tm.session("ts", 1).over(W), emit="on_close"))
    flow.output("sorted", x.sort_buffer("ts"))
    flow.output("late", x.late_rows("ts"))
    flow.output("checked", x.filter("v > 100").select(y="1 div (v - 1000)"))
    return flow


def follow(start, found, marks, disturb):
    """All changes, time by time; ``disturb`` does something between two steps and returns the run to go on with."""
    run, changes = start(), []
    for time in range(8):
        run.update("x", [u for u in found if u[1] == time])
        run.update("x.watermark", [u for u in marks if u[1] == time])
        run.advance_to(time + 1)
        changes += [sorted(map(repr, run.changes(name))) for name in run.graph.outputs]
        changes.append([o.late for o in run.metrics() if o.kind == "SortBuffer"][:1])
        run = disturb(run, time)
    run.close()
    return changes


def undisturbed(found, marks):
    return follow(lambda: flow_of_all().start(), found, marks, lambda run, _: run)


@pytest.mark.slow
@pytest.mark.law("A durable run that goes on after any step gives what an undisturbed one gives.")
@pytest.mark.parametrize("options", [{"checkpoint_every": 2}, {"checkpoint_every": 1000}, {"in_memory": 3}])
def test_a_run_goes_on_after_every_step(tmp_path_factory, options):
    @examples(12)
    @given(found=updates(), marks=told())
    def check(found, marks):
        folder = tmp_path_factory.mktemp("state")

        def start():
            return flow_of_all().start(tm.Embedded(folder, **options))

        def again(run, _):
            run.close()
            return start()

        assert follow(start, found, marks, again) == undisturbed(found, marks)

    check()


@pytest.mark.slow
def test_saved_and_loaded(tmp_path):
    @examples(12)
    @given(found=updates(), marks=told())
    def check(found, marks):
        def again(run, time):
            run.save(tmp_path / f"{time}")
            run.close()
            return tm.load(tmp_path / f"{time}", flow_of_all())

        assert follow(lambda: flow_of_all().start(), found, marks, again) == undisturbed(found, marks)

    check()


@pytest.mark.slow
@examples(20)
@given(found=updates(), marks=told(), compacted=st.booleans())
def test_refused_steps_leave_no_trace(found, marks, compacted):
    """Each step is tried twice: first with more rows, and one that it fails by."""

    def start():
        run = flow_of_all().start(keep=2)
        return refuse(run, 0)

    def refuse(run, time):
        if compacted:
            run.compact()
        run.insert("x", [("a", 50, 1), ("b", time, 2), ("a", 2 * time + 1, 1000)])
        run.watermark("x", 90)
        with pytest.raises(ExpressionError):
            run.advance()
        run.discard()
        return run

    assert follow(start, found, marks, lambda run, time: refuse(run, time + 1)) == undisturbed(found, marks)


def test_kept_times_stay_readable():
    flow = flow_of_all()
    with flow.start(keep=3) as run:
        for time in range(6):
            run.insert("x", [("a", 4 * time, time)])
            run.advance()
        counts = [len(run.snapshot("sorted", at=time)) for time in range(2, 6)]
        assert counts == [2, 3, 4, 5]
        assert [row[0][1] for row in run.changes("sorted", since=3)] == [12, 16]


def test_equivalence_over_upserts():
    """Of an input with a key the row that is replaced may be late while its successor is not."""
    flow = tm.Dataflow()
    x = flow.input("x", {"k": "int64", "ts": "int64"}, key="k", watermark=("ts", 3))
    flow.output("sorted", x.sort_buffer("ts"))
    flow.output("late", x.late_rows("ts"))
    writes = [((1, 5), 0, 1), ((2, 9), 0, 1), ((1, 8), 1, 1), ((3, 20), 2, 1), ((1, 18), 3, 1), ((2, 30), 4, 1)]
    check_equivalent(flow, {"x": writes})


WINDOW = {"mean": tm.avg("v").over(W.rows_between(-4, 0)), "near": tm.count().over(W.range_between(-9, 5))}


@pytest.mark.parametrize("calls", [WINDOW, {"number": tm.row_number().over(W), "next": tm.lead("v", 2).over(W)}])
def test_the_state_of_a_long_stream_is_flat(calls):
    """After ten times as many rows as much is held: at most the rows of open frames, and what merging leaves."""
    flow = tm.Dataflow()
    x = flow.input("x", ROW, watermark=("ts", 20))
    flow.output("out", x.with_columns(**calls, emit="on_close").agg(n=tm.count()))
    held = {}
    with flow.start() as run:
        for epoch in range(400):
            run.insert("x", [("abc"[i % 3], 10 * epoch + (7 * i) % 10, i) for i in range(10)])
            run.advance()
            if epoch in (39, 399):
                run.compact()
                of_windows = [o for o in run.metrics() if o.kind in ("SortBuffer", "SlidingWindows", "Watermark")]
                held[epoch] = sum(o.state_rows + o.waiting for o in of_windows)
        ((n,),) = run.snapshot("out")
    assert n > 3900
    assert held[399] <= held[39] + 3 <= 100


NEAR = {"n": tm.count().over(tm.Window.partition_by("k").order_by("ts").range_between(-5, 5))}


@pytest.mark.parametrize("calls", [NEAR, {"start": tm.session("ts", 5).over(W)}])
def test_partitions_that_end_are_forgotten(calls):
    """With ranges and sessions nothing of a partition is held once the watermark is beyond what its rows can touch."""
    flow = tm.Dataflow()
    x = flow.input("x", {"k": "int64", "ts": "int64"}, watermark=("ts", 0))
    flow.output("out", x.with_columns(**calls, emit="on_close"))
    with flow.start() as run:
        run.insert("x", [(k, k) for k in range(1000)])
        run.advance()
        run.insert("x", [(0, 2000)])
        run.advance()
        run.compact()
        (windows,) = [o for o in run.metrics() if o.kind in ("SlidingWindows", "ClosedSessions")]
        assert windows.state_rows + windows.waiting == 0
        assert len(run.snapshot("out")) == 1000


def test_what_is_kept_are_the_rows_that_frames_to_come_look_at():
    flow = tm.Dataflow()
    x = flow.input("x", ROW, watermark=("ts", 0))
    flow.output("out", x.with_columns(sum=tm.sum("v").over(W.rows_between(-2, 0)), emit="on_close"))
    with flow.start() as run:
        for time in range(50):
            run.insert("x", [("ab"[time % 2], time, 1)])
            run.advance()
        run.compact()
        (slides,) = (o for o in run.metrics() if o.kind == "SlidingWindows")
        assert slides.state_rows == 4
        assert max(run.snapshot("out")) == ("b", 47, 1, 3)
