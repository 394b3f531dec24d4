"""Window calls over large partitions that are kept in their order: the reference engine's values, whatever changes."""

import datetime as dt
import math
from decimal import Decimal
from operator import gt, le

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.random_windows import SMALL, TXY, W, calls, changing_rows, schemas, several, windows
from support.running import examples

import tidemill as tm
from tidemill.expressions.types import INT64
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import NULL
from tidemill.renderer.embedded.reduce import ordered_windows
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.windows import aggregates, changes, ordering, scalar
from tidemill.renderer.embedded.windows.affected import affected
from tidemill.renderer.embedded.windows.chunks import Edits
from tidemill.renderer.embedded.windows.large_partitions import partitions_in_order
from tidemill.renderer.embedded.windows.summaries import Summary, summariser, together
from tidemill.testing import all_at_once, check_equivalent, shuffled, updates

pytestmark = pytest.mark.usefixtures("small_is_large")


@examples(100)
@given(st.data())
def test_any_calls(data):
    schema = data.draw(schemas())
    window, order_type = data.draw(windows(schema))
    some = data.draw(st.lists(calls(schema, window, order_type), min_size=1, max_size=2))
    flow = tm.Dataflow("windows")
    flow.output("y", flow.input("x", schema).with_columns(**{f"c{i}": call for i, call in enumerate(some)}))
    found = data.draw(changing_rows(schema, most=12, latest=4))
    check_equivalent(flow, {"x": found}, batchings=[all_at_once, shuffled(1)])


@examples(60)
@given(st.data())
def test_frames_with_bounds(data):
    """Integers only, so that most calls are bounded, and partitions are of some size."""
    some = data.draw(st.lists(calls(TXY | {"n": "int32"}, W, "int64"), min_size=1, max_size=2))
    flow = tm.Dataflow("windows")
    rows = flow.input("x", TXY | {"n": "int32"})
    flow.output("y", rows.with_columns(**{f"c{i}": call for i, call in enumerate(some)}))
    values = {"k": [1, 1, 2], "t": [None, *range(8)], "x": [None, 1, 2, 5], "n": [1, 2]}
    found = data.draw(updates(TXY | {"n": "int32"}, 1, max_size=24, latest=5, non_negative=True, values=values))
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):  # few rows are worked out as many are
            patch.setattr(scalar, "ROWS", -1)
        check_equivalent(flow, {"x": found}, batchings=[all_at_once, shuffled(1)])


def test_sums_of_chunks_are_exact_beyond_64_bits():
    summarise = summariser([INT64], Interner())
    for codes in ([2**62] * 3, [-(2**62)] * 3, [2**62, NULL, 2**62, 2**62, 5]):
        expected = sum(code for code in codes if code != NULL)
        assert summarise(Summary("whole", 0), np.array(codes)) == expected


def test_a_partition_whose_rows_have_all_gone():
    """There are updates of it, which come to nothing."""
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", {"t": "int64"}).with_columns(n=tm.row_number().over(tm.Window.order_by("t"))))
    found = [((1,), 0, 1), ((2,), 0, 1), ((1,), 1, -1), ((2,), 1, -1), ((1,), 2, 2)]
    check_equivalent(flow, {"x": found}, batchings=[all_at_once])


@examples(10)
@given(updates(TXY, 1, max_size=16, non_negative=False, values=SMALL))
def test_several_windows_and_negative_counts(found):
    flow = tm.Dataflow()
    flow.output("y", several(flow.input("x", TXY)))
    check_equivalent(flow, {"x": found}, batchings=[all_at_once, shuffled(1)])


NEAR = {
    "before": tm.lag("x").over(W),
    "near": tm.sum("x").over(W.rows_between(-2, 1)),
    "place": tm.rank().over(W),
    "share": tm.ntile("n").over(W),
}


def near():
    flow = tm.Dataflow("near")
    flow.output("y", flow.input("x", {**TXY, "n": "int32"}).with_columns(**NEAR))
    return flow


def rows_of(run):
    return sorted(run.snapshot("y"), key=repr)


def filled(run, count=40):
    run.insert("x", [(i % 2, i * 7 % 11, i, 3) for i in range(count)])
    run.advance()


def test_a_change_is_worked_out_in_order(in_order):
    with near().start() as run, near().start(tm.Reference()) as reference:
        for each in (run, reference):
            filled(each)
        held = sum(m.bytes for m in run.metrics() if m.kind == "Reduce")
        for each in (run, reference):
            each.insert("x", [(0, 5, 100, 3)])
            each.advance()
        assert len(in_order) == 1
        assert rows_of(run) == rows_of(reference)
        now = sum(m.bytes for m in run.metrics() if m.kind == "Reduce")
        assert now < held + 20 * 8  # the rows are there once
        assert list(run.changes("y")) == list(reference.changes("y"))


def test_a_copy_that_goes_leaves_its_value_to_the_next(small_is_large, monkeypatch):
    monkeypatch.setattr(scalar, "ROWS", -1)
    flow = tm.Dataflow()
    rows = flow.input("x", {"k": "int64", "t": "int64"})
    flow.output("y", rows.with_columns(n=tm.row_number().over(tm.Window.partition_by("k").order_by("t"))))
    with flow.start() as run:
        run.insert("x", [(0, 0), (0, 0), (0, 1), (0, 2)])
        run.advance()
        run.changes("y")
        run.delete("x", [(0, 0)])
        run.advance()
        found = sorted((row, count) for row, _, count in run.changes("y"))
    assert found == [((0, 0, 2), -1), ((0, 1, 2), 1), ((0, 1, 3), -1), ((0, 2, 3), 1), ((0, 2, 4), -1)]


def test_a_small_change_in_a_large_partition_looks_at_few_rows(in_order, looked_at):
    flow = tm.Dataflow()
    rows = flow.input("x", TXY)
    flow.output("y", rows.with_columns(before=tm.lag("x", 2).over(W), near=tm.sum("x").over(W.rows_between(-2, 1))))
    with flow.start() as run:
        run.insert("x", [(0, i, i) for i in range(3000)])
        run.advance()
        run.insert("x", [(0, 1500, 7)])
        run.advance()
        run.update("x", [((0, 10, 10), 2, -1), ((0, 2000, 0), 2, 1)])
        run.advance()
    assert len(in_order) == 2
    assert looked_at == [2 * 6 + 1, 26]


@pytest.mark.parametrize("exclusion", ["no others", "current row", "group", "ties"])
def test_a_load_in_pieces_that_begin_within_peers(exclusion):
    """The groups before are counted from where the row's own begins."""
    flow = tm.Dataflow()
    around = tm.Window.order_by("t").groups_between(-1, 1).exclude(exclusion)
    calls = {"n": tm.count().over(around), "least": tm.min("x").over(around), "first": tm.first_value("x").over(around)}
    flow.output("y", flow.input("x", {"t": "int64", "x": "int64"}).with_columns(**calls))
    check_equivalent(flow, {"x": [((i // 5, i * 7 % 11), 0, 1) for i in range(60)]}, batchings=[all_at_once])


@pytest.mark.slow
@pytest.mark.parametrize("exclusion", ["no others", "group", "ties"])
def test_extremes_over_groups_look_at_groups_not_at_rows(exclusion, monkeypatch):
    """Ten rows are peers: of those looked at, before and after, that are hundreds, their groups are compared."""
    lengths, greatest = [], aggregates._greatest_of
    monkeypatch.setattr(
        aggregates, "_greatest_of", lambda numbers, parts: lengths.append(len(numbers)) or greatest(numbers, parts)
    )
    flow = tm.Dataflow()
    around = tm.Window.order_by("t").groups_between(-10, 10).exclude(exclusion)
    flow.output("y", flow.input("x", {"t": "int64", "x": "int64"}).with_columns(least=tm.min("x").over(around)))
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", [(i // 10, i * 7919 % 1009) for i in range(300)])
            each.advance()
        lengths.clear()
        for row in ((15, -1), (15, 2000)):
            for each in (run, reference):
                each.insert("x", [row])
                each.advance()
        assert sorted(run.snapshot("y")) == sorted(reference.snapshot("y"))
    assert lengths == [2 * 30] * 2


def test_edits_near_one_another_are_looked_at_together(monkeypatch):
    """Of the rows between them only those come out that change."""
    found = []
    monkeypatch.setattr(changes, "affected", lambda *given, **how: found.append(affected(*given, **how)) or found[-1])
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", TXY).with_columns(before=tm.lag("x").over(W)))
    with flow.start() as run:
        run.insert("x", [(0, i, i) for i in range(3000)])
        run.advance()
        run.insert("x", [(0, t, -7) for t in (1000, 1010, 1020, 2000)])
        run.delete("x", [(0, 1015, 1015)])
        run.advance()
        changed = [change for change in run.changes("y") if change[1] == 1]
    assert found[0].edits.tolist() == [0, 4]
    assert len(changed) == 4 + 1 + 2 * 5


def test_a_refused_step_is_undone(in_order):
    with near().start() as run, near().start() as other:
        for each in (run, other):
            filled(each)
        run.insert("x", [(0, 3, 1, 3), (1, 4, 1, 0)])
        with pytest.raises(tm.errors.ExpressionError, match="at least 1"):
            run.advance()
        run.delete("x", [(1, 4, 1, 0)])
        run.advance()
        other.insert("x", [(0, 3, 1, 3)])
        other.advance()
        for each in (run, other):
            each.delete("x", [(0, 3, 1, 3)])
            each.advance()
        assert len(in_order) > 2
        assert rows_of(run) == rows_of(other)


def test_copies_beyond_the_most_are_refused(in_order, monkeypatch):
    for module in (ordered_windows, ordering):
        monkeypatch.setattr(module, "MOST_COPIES", 3)
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", {"t": "int64"}).with_columns(before=tm.lag("t").over(tm.Window.order_by("t"))))
    with flow.start() as run:
        run.insert("x", [(t,) for t in range(9)])
        run.advance()
        run.insert("x", [(4,), (4,)])
        run.advance()
        run.insert("x", [(4,), (6,)])
        with pytest.raises(tm.errors.ExpressionError, match="the row is there 4 times"):
            run.advance()
    assert in_order


def test_an_error_of_a_row_that_is_only_looked_at_is_none(in_order):
    """The sum of a frame that is cut off where the rows looked at end does not fit, the frame's own sum does."""
    flow = tm.Dataflow()
    by_t = tm.Window.order_by("t")
    calls = {"before": tm.lag("x", 2).over(by_t), "s": tm.sum("x").over(by_t.rows_between(-1, 1))}
    flow.output("y", flow.input("x", {"t": "int64", "x": "int64"}).with_columns(**calls))
    largest = 2**63 - 1
    with flow.start() as run:
        run.insert("x", list(enumerate([0, 0, 0, -largest, largest, largest, -largest, 0, 0, 0])))
        run.advance()
        run.delete("x", [(2, 0)])
        run.advance()
        assert [row[-1] for row in run.snapshot("y")] == [0, -largest, 0, largest, largest, 0, -largest, 0, 0]
        run.insert("x", [(2, 5)])  # the order kept has the change before, though that was computed whole
        run.advance()
        assert [row[-1] for row in run.snapshot("y")][:4] == [0, 5, 5 - largest, 5]
    assert len(in_order) == 2


@pytest.mark.slow
@pytest.mark.parametrize("changed", [2, 80])
@pytest.mark.parametrize(("dtype", "value"), [("int64", "5"), ("decimal(10,2)", "1.25"), ("decimal(38,2)", "9" * 30)])
def test_averages_divide_by_no_count_of_rows_that_are_only_looked_at(dtype, value, changed, at_once):
    """Their frames are not looked for where bounds are intervals, and so are found empty."""
    flow = tm.Dataflow()
    around = tm.Window.order_by("t").range_between(-tm.interval(days=3), tm.interval(days=2))
    flow.output("y", flow.input("x", {"t": "date", "x": dtype}).with_columns(mean=tm.avg("x").over(around)))
    first, number = dt.date(2000, 1, 1), int(value) if dtype == "int64" else Decimal(value)
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", [(first + dt.timedelta(days=3 * i), number) for i in range(300)])
            each.advance()
            each.insert("x", [(first + dt.timedelta(days=100 + 10 * i), 2 * number) for i in range(changed)])
            each.advance()
        assert sorted(run.changes("y")) == sorted(reference.changes("y"))
    assert len(at_once) == 1


def test_a_finite_value_with_an_offset_may_be_infinite(in_order):
    """So infinities are in the frames of values that are finite, and change them."""
    flow = tm.Dataflow()
    up, down = (tm.Window.order_by(by("t")).range_between(-1.0, 1e308) for by in (tm.asc, tm.desc))
    flow.output("y", flow.input("x", {"t": "float64"}).with_columns(n=tm.count().over(up), m=tm.count().over(down)))
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", [(t,) for t in (-math.inf, -1.7e308, -1.5e308, 0.0, 1.0, 1.5e308, 1.7e308, math.inf)])
            each.advance()
            for t in (math.inf, -math.inf):
                each.insert("x", [(t,)])
                each.advance()
        assert sorted(run.snapshot("y")) == sorted(reference.snapshot("y"))
    assert in_order


@pytest.mark.parametrize("spilled", [False, True])
def test_a_restart_goes_on_where_it_was(tmp_path, spilled, in_order):
    engine = tm.Embedded(tmp_path, checkpoint_every=2, in_memory=0 if spilled else None)
    with near().start(tm.Reference()) as reference:
        filled(reference)
        with near().start(engine) as run:
            filled(run)
        for i in range(4):
            with near().start(engine) as run:
                for each in (run, reference):
                    each.update("x", [((i % 2, i, 50 + i, 2), i + 1, 1), ((i % 2, i * 7 % 11, i, 3), i + 1, -1)])
                    each.advance()
                assert rows_of(run) == rows_of(reference)
    assert in_order


def test_what_is_saved_and_loaded_goes_on(tmp_path, in_order):
    flow = near()
    with flow.start() as run:
        filled(run)
        run.insert("x", [(0, 3, 1, 3)])
        run.advance()
        run.save(tmp_path / "state")
        with tm.load(tmp_path / "state", flow) as again:
            for each in (run, again):
                each.insert("x", [(0, 3, 0, 2)])
                each.advance()
            assert rows_of(run) == rows_of(again)
    assert len(in_order) == 3


@pytest.mark.usefixtures("small_is_large")
def test_updates_of_many_partitions_are_sorted_at_once(monkeypatch):
    sorts = []
    made = RowOrder.sorted
    monkeypatch.setattr(RowOrder, "sorted", lambda self, *given: sorts.append(given) or made(self, *given))
    with near().start() as run, near().start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", [(k, i, i, 1) for k in range(5) for i in range(8)])
            each.advance()
            each.insert("x", [(k, 20, 0, 1) for k in range(5)])  # which has the partitions put in their order
            each.advance()
        sorts.clear()
        for each in (run, reference):
            each.insert("x", [(k, 7 - i, 100 + i, 1) for i in range(3) for k in range(4)])
            each.delete("x", [(4, 3, 3, 1)])
            each.advance()
        assert rows_of(run) == rows_of(reference)
    assert len(sorts) == 1


class AnOrderIndex(RuleBasedStateMachine):
    """Beside a sorted list."""

    def __init__(self):
        super().__init__()
        self.rows = [(1, 5), (2, 5)]
        order = RowOrder([SortColumn(0, INT64), SortColumn(1, INT64, descending=True)], Interner())
        self.order = order
        codes, ones = np.array(self.rows).T, np.ones(2, np.int64)
        ((_, self.partition),) = partitions_in_order(codes, ones, 0 * ones, order, 1)

    @rule(
        rows=st.lists(st.tuples(st.integers(0, 5), st.sampled_from([NULL, 1, 2])), min_size=1, max_size=6, unique=True),
        data=st.data(),
    )
    def edit(self, rows, data):
        edits, after = [], list(self.rows)
        for row in sorted(rows, key=self.order.key):
            there = self.rows.count(row)
            copies = data.draw(st.integers(-there, 3).filter(bool))
            if len(after) + copies < 1:
                copies = 1
            place = self.partition.position_of(list(row))
            edits.append((place, row, copies))
            after += [row] * copies
            for _ in range(-copies):
                after.remove(row)
        if data.draw(st.booleans()):  # else groups are not looked at between two edits
            assert self.partition.groups == len({t for t, _ in self.rows})
        places, changed, copies = zip(*edits, strict=True)
        self.partition.apply(Edits(np.array(places), np.array(changed).T, np.array(copies)))
        self.rows = sorted(after, key=self.order.key)

    @rule(data=st.data())
    def has_the_same_groups(self, data):
        rows, partition = self.rows, self.partition
        groups = sorted({t for t, _ in rows})
        starts = [*([t for t, _ in rows].index(g) for g in groups), len(rows)]
        places = range(len(rows))
        firsts, ends = (
            [find(s for s in starts if test(s, p)) for p in places] for find, test in ((max, le), (min, gt))
        )
        before = [sum(s < place for s in starts) for place in places]
        partition.peers_by_number = data.draw(st.booleans())
        at = np.array(places)
        assert partition.peers_start(at).tolist() == firsts
        assert partition.peers_end(at + 1).tolist() == ends
        assert partition.groups_before(at).tolist() == before
        assert partition.groups == len(groups)
        numbers = range(-1, len(groups) + 2)
        expected = [0, *starts, len(rows)]
        assert partition.group_starts(np.array(numbers)).tolist() == expected

    @invariant()
    def is_the_same(self):
        rows, partition = self.rows, self.partition
        assert list(map(tuple, partition.between(0, len(rows)).T.tolist())) == rows
        assert len(partition) == len(rows)
        for row in rows:
            assert partition.position_of(list(row)) == rows.index(row)
        for place in range(0, len(rows) + 1, 3):
            for kind in ("non-null", "greatest", "first non-null", "last"):
                for found, some in ((partition.before, rows[:place]), (partition.after, rows[place:])):
                    made, wanted = summariser([INT64, INT64], Interner()), Summary(kind, 1)
                    values = np.array([u for _, u in some], np.int64)
                    expected = made(wanted, values) if some else together(wanted, ())
                    assert found(place, wanted, made) == expected
        for t in range(-1, 7):
            for right, expected in ((False, sum(r[0] < t for r in rows)), (True, sum(r[0] <= t for r in rows))):
                assert partition.positions_of_numbers(np.array([t, t]), right=right).tolist() == [expected] * 2


TestAnOrderIndex = AnOrderIndex.TestCase
