"""Rows of large partitions are in memory once, in their order, whatever becomes of them."""

import sys

import numpy as np
import pyarrow as pa
import pytest
from support.random_windows import TXY, W

import tidemill as tm
from benchmarks.runner import apart
from tidemill.boundary.results import Updates
from tidemill.expressions.types import INT64
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.operators import input_output
from tidemill.renderer.embedded.reduce import ordered_windows
from tidemill.renderer.embedded.trace import spine
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.windows import changes
from tidemill.renderer.embedded.windows.evaluate import call_values
from tidemill.renderer.embedded.windows.large_partitions import LargePartitions, partitions_in_order
from tidemill.renderer.embedded.windows.order_index import OrderIndex

CODE = 8
COLUMNS = 3
"""Those of a row: the hash that tells peers apart is none."""
SLACK = 40_000
"""Bytes that do not grow with the rows: tails."""


def lags(name="lags"):
    flow = tm.Dataflow(name)
    flow.output("y", flow.input("x", TXY).with_columns(before=tm.lag("x").over(W), near=tm.sum("x").over(W)))
    return flow


def near():
    flow = tm.Dataflow("near")
    calls = {"before": tm.lag("x").over(W), "near": tm.sum("x").over(W.rows_between(-2, 1))}
    flow.output("y", flow.input("x", TXY).with_columns(**calls))
    return flow


def measured(run):
    """Return what the operator of the window says of itself."""
    found, *_ = (m for m in run.metrics() if m.kind == "Reduce")
    return found


def table(count, partitions=1):
    numbers = np.arange(count)
    return pa.table({"k": numbers % partitions, "t": numbers, "x": numbers % 7})


@pytest.mark.parametrize("flow", [near, lags])
def test_rows_of_a_large_partition_are_held_once(flow, in_order):
    count = 20_000
    with flow().start() as run:
        run.insert("x", table(count))
        run.advance()
        held = [measured(run)]
        for t in range(0, count, 500):  # a row in each chunk
            run.insert("x", [(0, t, 100)])
            run.advance()
        held.append(measured(run))
    assert len(in_order) == 40
    assert [m.state_rows for m in held] == [count, count + 40]
    assert max(m.bytes for m in held) < count * COLUMNS * CODE + SLACK


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks the system how much memory was held at most")
def test_a_load_takes_at_most_150_bytes_a_row_beyond_its_table():
    """With its input as codes, what the window and the output hold, and the changes that nobody has read yet."""
    found = apart("large_partitions:held_by_windows", "W7", 0.3, 1_000)
    assert found["rows"] == 300_000
    assert found["peak"] <= 150
    assert found["held"] <= 110


def stored_loads(monkeypatch):
    """Return, of each load that an output stores, what is left of what it was given, and what it holds."""
    stored, append_batch = [], Spine.append_batch

    def kept(self, updates):
        stored.append((updates, append_batch(self, updates)))
        return stored[-1][1]

    monkeypatch.setattr(Spine, "append_batch", kept)
    return stored


def test_rows_of_a_load_are_let_go_of_as_the_output_stores_them(monkeypatch):
    stored = stored_loads(monkeypatch)
    with near().start() as run:
        run.insert("x", table(20_000, 3))
        run.advance()
        assert [(left, held.array.shape[1]) for left, held in stored] == [([], 20_000)]


def test_changes_that_nobody_has_read_are_what_the_output_holds_in_the_order_in_which_they_came(monkeypatch):
    stored = stored_loads(monkeypatch)
    with near().start() as run:
        run.insert("x", table(20_000, 3))
        run.advance()
        ((_, held),) = stored
        (output,) = run.executor.compiled.outputs.values()
        (unread,), (batch,) = output.unread, output.spine.view.batches
        assert unread.array is held.array is batch.array
        monkeypatch.setattr(Updates, "_sort", lambda _: None)
        read = run.changes("y").to_arrow().select(["k", "t"]).to_pylist()
        assert output.unread == []
    assert read == sorted(read, key=lambda row: (row["k"], row["t"]))


@pytest.mark.slow
@pytest.mark.parametrize("other", ["group", "join", "select", "concat"])
def test_loads_that_several_read_come_to_all_of_them(other, monkeypatch):
    """Whether these can do with rows or not, and whatever the others let go of."""
    monkeypatch.setattr(input_output, "_MOST_IN_TAIL", 100)
    flow = tm.Dataflow()
    rows = flow.input("x", TXY).with_columns(before=tm.lag("x").over(W), near=tm.sum("x").over(W.rows_between(-2, 1)))
    flow.output("y", rows)
    flow.output("picked", rows.select("near", "t", "k"))
    made = {
        "group": lambda: rows.group_by("k").agg(n=tm.sum("near")),
        "join": lambda: rows.join(rows.select("k", t="t + 1", other="near"), on=["k", "t"]),
        "select": lambda: rows.select("k", s="near + 1"),
        "concat": lambda: rows.concat(rows),
    }
    flow.output("other", made[other]())
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", table(900, partitions=3))
            each.advance()
            each.insert("x", [(0, 0, 9), (1, 500, 3)])
            each.advance()
        for name in ("y", "picked", "other"):
            assert list(run.changes(name)) == list(reference.changes(name))


def test_loads_are_worked_out_some_rows_at_a_time(monkeypatch):
    monkeypatch.setattr(changes, "ROWS_AT_ONCE", 500)
    lengths = []
    monkeypatch.setattr(changes, "call_values", lambda *given: lengths.append(len(given[0])) or call_values(*given))
    with near().start() as run, near().start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", table(2000, partitions=3))
            each.advance()
        assert run.snapshot("y").counts() == reference.snapshot("y").counts()
    assert max(lengths) < 1000
    assert sum(lengths) < 3000 + 10 * len(lengths)


@pytest.mark.parametrize("calls", [
    {"most": tm.max("x").over(W.range_between(-1000, 0))},
    {"total": tm.sum("x").over(W.rows_between(-1000, 1000))},
    {"third": tm.lead("x", 1000, ignore_nulls=True).over(W)},
])  # fmt: skip
def test_loads_where_frames_are_much_wider_than_a_piece_look_at_rows_a_few_times(calls, monkeypatch):
    monkeypatch.setattr(changes, "ROWS_AT_ONCE", 20)
    lengths = []
    monkeypatch.setattr(changes, "call_values", lambda *given: lengths.append(len(given[0])) or call_values(*given))
    flow = tm.Dataflow("wide")
    flow.output("y", flow.input("x", TXY).with_columns(**calls))
    with flow.start() as run, flow.start() as whole:
        for each in (run, whole):
            with monkeypatch.context() as patched:
                patched.setattr(ordered_windows, "LARGE", ordered_windows.LARGE if each is run else 1 << 40)
                each.insert("x", table(10_000))
                each.advance()
        assert run.snapshot("y").counts() == whole.snapshot("y").counts()
    assert 10_000 <= sum(lengths) < 3 * 10_000
    assert max(lengths) < 10_000


@pytest.mark.parametrize("exclusion", ["no others", "group", "ties"])
@pytest.mark.parametrize("between", [(-3, 3), (-3, -1), (2, 4), (0, 0)])
def test_loads_are_worked_out_alike_where_peers_are_in_two_pieces(between, exclusion, monkeypatch):
    """Frames of peer groups begin where the first peer's do, which may be worked out with the rows before."""
    monkeypatch.setattr(changes, "ROWS_AT_ONCE", 7)
    flow = tm.Dataflow()
    around = tm.Window.order_by("t").groups_between(*between).exclude(exclusion)
    calls = {"a": tm.min("x").over(around), "b": tm.sum("x").over(around)}
    flow.output("y", flow.input("x", {"t": "int64", "x": "int64"}).with_columns(**calls))
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", [(i // 10, i * 7919 % 1009) for i in range(300)])
            each.advance()
        assert run.snapshot("y").counts() == reference.snapshot("y").counts()


@pytest.mark.parametrize("others", [[], [(1, 0, 3)]])
def test_a_load_that_is_refused_names_the_row_and_can_be_made_again(monkeypatch, others):
    """Whether or not all rows are put in order, which are let go of when they are."""
    monkeypatch.setattr(changes, "ROWS_AT_ONCE", 100)
    flow = tm.Dataflow()
    share = tm.ntile("n").over(tm.Window.partition_by("k").order_by("t"))
    flow.output("y", flow.input("x", {"k": "int64", "t": "int64", "n": "int32"}).with_columns(share=share))
    rows = [(0, t, 1 + t % 7) for t in range(300)]
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        run.insert("x", [*rows, (0, 250, 0), *others])
        with pytest.raises(tm.errors.ExpressionError, match=r"row \(0, 250, 0\): 0: expected a number of at least 1"):
            run.advance()
        run.discard()
        for each in (run, reference):
            each.insert("x", [*rows, rows[7], *others])
            each.advance()
            each.delete("x", [rows[7], rows[8]])
            each.advance()
        assert list(run.changes("y")) == list(reference.changes("y"))


def test_partitions_go_into_their_order_without_a_copy_of_all_rows_for_each():
    """As NumPy makes of a matrix that is a part of another one whenever something is taken from it."""

    class Counted(np.ndarray):
        def take(self, *given, **named):
            assert self.flags.c_contiguous
            return super().take(*given, **named)

    rows = np.arange(4000).reshape(2, 2000).view(Counted)[:, 1000:]
    order = RowOrder([SortColumn(1, INT64)], Interner())
    found = dict(partitions_in_order(rows, np.ones(1000, np.int64), np.arange(1000) // 10, order, 1))
    assert len(found) == 100
    assert next(found[7].chunks()).tolist() == [[*range(1070, 1080)], [*range(3070, 3080)]]


def test_partitions_go_into_their_order_as_they_grow_and_back_as_they_shrink(monkeypatch, in_order):
    monkeypatch.setattr(ordered_windows, "LARGE", 8)
    monkeypatch.setattr(ordered_windows, "SMALL", 4)
    monkeypatch.setattr(ordered_windows, "MANY", 1)
    monkeypatch.setattr(spine, "TAIL", 1)  # its rows are not counted when a partition's size is looked up
    steps = [("insert", (k, t, t % 3)) for t in range(12) for k in (0, 1)]
    steps += [("delete", (0, t, t % 3)) for t in range(12)]
    sizes = []
    with near().start() as run, near().start(tm.Reference()) as reference:
        for put, row in steps:
            for each in (run, reference):
                getattr(each, put)("x", [row])
                each.advance()
            assert list(run.changes("y")) == list(reference.changes("y"))
            run.compact()
            sizes.append(measured(run).state_rows)
    assert sizes == [*range(1, 25), *range(23, 11, -1)]
    assert len(in_order) > 8


@pytest.mark.parametrize(("most", "sorts"), [(1 << 20, 1), (200, 6)])
def test_the_partitions_that_a_step_touches_go_into_their_order_together(monkeypatch, in_order, most, sorts):
    """By one sort for all, or for about so many rows; but for those whose stored rows cancel out."""
    partitions, sorted_at_once = 20, []

    def together(codes, counts, number, *order):
        sorted_at_once.append(len(set(number.tolist())))
        return partitions_in_order(codes, counts, number, *order)

    with near().start() as run, near().start(tm.Reference()) as reference:
        for each in (run, reference):
            with monkeypatch.context() as patched:
                patched.setattr(ordered_windows, "LARGE", 1 << 40)
                each.insert("x", table(50 * partitions, partitions))
                each.advance()
                each.delete("x", [(0, t, t % 7) for t in range(0, 45 * partitions, partitions)])
                each.advance()
        monkeypatch.setattr(ordered_windows, "LARGE", 8)
        monkeypatch.setattr(ordered_windows, "SMALL", 4)
        monkeypatch.setattr(ordered_windows, "MANY", 1)
        monkeypatch.setattr(ordered_windows, "AT_ONCE", most)
        monkeypatch.setattr(ordered_windows, "partitions_in_order", together)
        for each in (run, reference):
            each.insert("x", [(k, 500, 3) for k in range(partitions)])
            each.delete("x", [(k, 20 + k, (20 + k) % 7) for k in range(1, partitions)])
            each.advance()
        assert list(run.changes("y")) == list(reference.changes("y"))
        assert (len(sorted_at_once), sum(sorted_at_once)) == (sorts, partitions - 1)
        run.compact()
        assert measured(run).state_rows == 50 * partitions - 45 + partitions - (partitions - 1)
    assert in_order


def test_a_step_that_is_refused_leaves_rows_where_they_were(monkeypatch, in_order):
    """Whether they had gone into their order by it, or out of it, or were changed there."""
    monkeypatch.setattr(ordered_windows, "LARGE", 8)
    monkeypatch.setattr(ordered_windows, "SMALL", 4)
    monkeypatch.setattr(ordered_windows, "MANY", 1)
    flow = near()
    flow.output("share", flow.input("n", {"n": "int32"}).with_columns(s=tm.ntile("n").over(tm.Window.order_by("n"))))
    steps = [
        [(0, t, 1) for t in range(7)],  # a row short of its order
        [(0, 9, 1)],
        [(0, 5, 5)],
        [(1, t, 1) for t in range(20)],
    ]
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for rows in (*steps, *([row] for row in steps[0])):
            for again in (True, False):
                put = run.delete if rows[0] in steps[0] and len(rows) == 1 else run.insert
                put("x", rows)
                if again:
                    run.insert("n", [(0,)])
                    with pytest.raises(tm.errors.ExpressionError, match="at least 1"):
                        run.advance()
                    run.discard()
            run.advance()
            put = reference.delete if rows[0] in steps[0] and len(rows) == 1 else reference.insert
            put("x", rows)
            reference.advance()
            assert run.snapshot("y").counts() == reference.snapshot("y").counts()
            run.compact()
            assert measured(run).state_rows == sum(run.snapshot("y").counts().values())
    assert len(in_order) > 4


def test_orders_of_spilled_rows_count_as_held(in_order):
    most, partitions, size = 1500, 30, 600  # more than a tail, whose rows are not counted when a size is looked up
    changes = [(k, 17 * k, 100) for k in range(partitions)]
    held = []
    with near().start(tm.Embedded(in_memory=most)) as run:
        run.insert("x", table(partitions * size, partitions))
        run.advance()
        for row in changes:
            run.insert("x", [row])
            run.advance()
            held.append(measured(run).bytes)
        found = run.snapshot("y").counts()
    assert len(in_order) == partitions
    assert max(held) < (most + 2 * size) * (COLUMNS + 3) * CODE + 2 * SLACK < partitions * size * COLUMNS * CODE
    with near().start() as run:
        run.insert("x", table(partitions * size, partitions))
        run.insert("x", changes)
        run.advance()
        assert found == run.snapshot("y").counts()


def test_a_spill_that_is_interrupted_leaves_every_row_there_once(monkeypatch):
    engine = tm.Embedded(in_memory=1 << 20)
    evict = Spine.evict

    def interrupted(arrangement):
        evict(arrangement)
        raise KeyboardInterrupt

    with near().start(engine) as run, near().start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", table(400))
            each.advance()
        with monkeypatch.context() as patched:
            patched.setattr(Spine, "evict", interrupted)
            with pytest.raises(KeyboardInterrupt):
                run.spill()
        assert measured(run).state_rows == 400
        for each in (run, reference):
            each.insert("x", [(0, 300, 7)])
            each.advance()
        assert run.snapshot("y").counts() == reference.snapshot("y").counts()


@pytest.mark.slow
@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize("most", [100, 1 << 20])
def test_what_is_held_is_counted_by_what_a_step_changes(most, monkeypatch):
    """Each step of a run that may spill asks how much that is, of however many partitions."""
    made, asked = [], []
    monkeypatch.setattr(ordered_windows, "LargePartitions", lambda: made.append(LargePartitions()) or made[-1])
    length = OrderIndex.__len__
    with near().start(tm.Embedded(in_memory=most)) as run, near().start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", table(2000, partitions=400))
            each.advance()
        for k in range(0, 40, 4):
            asked.clear()
            with monkeypatch.context() as patched:
                patched.setattr(OrderIndex, "__len__", lambda some: asked.append(1) or length(some))
                run.insert("x", [(k, 7, 7), (k + 1, 8, 8)])
                run.advance()
            assert len(asked) < 200
            run.delete("x", [(k, 7, 7)])
            run.insert("x", [(k + 2, 7, 7)])
            run.delete("x", [(500, 0, 0)])
            with pytest.raises(tm.errors.StepError):
                run.advance()
            run.discard()
            run.delete("x", [(k + 1, t, t % 7) for t in range(k + 1, 2000, 400)])
            run.advance()
            reference.insert("x", [(k, 7, 7), (k + 1, 8, 8)])
            reference.delete("x", [(k + 1, t, t % 7) for t in range(k + 1, 2000, 400)])
            reference.advance()
            (large,) = made
            assert large.size + large.cached == sum(map(length, [*large._rows.values(), *large._cached.values()]))
        assert run.snapshot("y").counts() == reference.snapshot("y").counts()
