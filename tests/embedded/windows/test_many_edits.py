"""Many changed rows of one large partition at once: the same as one by one, and the reference engine's values."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.random_windows import TXY, W, calls
from support.running import examples
from support.table_steps import check_steps, to_and_fro

import tidemill as tm
from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.types import INT64
from tidemill.expressions.windows.bound import CallError
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.kernels.updates import NULL
from tidemill.renderer.embedded.reduce import ordered_windows
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.windows import changes, order_index
from tidemill.renderer.embedded.windows.affected import Reach, affected
from tidemill.renderer.embedded.windows.chunks import Edits
from tidemill.renderer.embedded.windows.order_index import OrderIndex
from tidemill.testing import all_at_once, check_equivalent, shuffled, updates

ORDERS = (
    [SortColumn(0, INT64), SortColumn(1, INT64)],
    [SortColumn(0, INT64, descending=True), SortColumn(1, INT64)],
    [SortColumn(0, INT64, nulls_first=False), SortColumn(1, INT64, descending=True)],
    [SortColumn(0, INT64, descending=True, nulls_first=False), SortColumn(1, INT64)],
)
ROWS = st.tuples(st.sampled_from([NULL, *range(8)]), st.integers(0, 2))


@st.composite
def partitions(draw):
    """Draw an order, rows in it, and as a function of these a partition."""
    columns = draw(st.sampled_from(ORDERS))
    order = RowOrder(columns, Interner(), [SortColumn(i, INT64) for i in (0, 1)] if draw(st.booleans()) else ())
    if order.row:
        order = RowOrder(columns[:1], Interner(), order.row)
    rows = sorted(draw(st.lists(ROWS, min_size=1, max_size=30)), key=order.key)
    return order, rows


def partition_of(order, rows):
    """Return rows in chunks of two, which may have more rows once they are changed."""
    codes = np.array(rows, np.int64).reshape(-1, 2).T
    return OrderIndex((codes[:, i : i + 2].copy() for i in range(0, len(rows), 2)), order, 1)


def groups_before(partition, places):
    return [partition.groups_before(np.array([place])).item() for place in places]


@st.composite
def edited_partitions(draw):
    order, rows = draw(partitions())
    changed = sorted(draw(st.lists(ROWS, min_size=1, max_size=12, unique=True)), key=order.key)
    copies = [draw(st.integers(-rows.count(row), 3).filter(bool)) for row in changed]
    return order, rows, changed, copies


@examples(200)
@given(edited_partitions(), st.sampled_from([0, 1, 256]))
@pytest.mark.usefixtures("small_is_large")
def test_places_are_those_of_each_row(drawn, tied):
    order, rows, changed, _ = drawn
    partition = partition_of(order, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order_index, "TIED", tied)
        places, there = partition.positions_of(np.array(changed).T)
    assert places.tolist() == [partition.position_of(list(row)) for row in changed]
    assert there.tolist() == [row in rows for row in changed]


def test_rows_that_begin_alike_are_looked_for_among_the_same_rows_once(monkeypatch):
    """Ten rows more of each number: for their places each of the rows that are there is looked at once, not ten times."""
    order = RowOrder([SortColumn(0, INT64), SortColumn(1, INT64)], Interner())
    partition = partition_of(order, [(i // 20, i % 20) for i in range(60)])
    cut_out, spans = [], OrderIndex.spans
    monkeypatch.setattr(
        OrderIndex, "spans", lambda rows, low, high: cut_out.append((high - low).sum()) or spans(rows, low, high)
    )
    new = np.array([(number, 20 + i) for number in range(3) for i in range(10)]).T
    places, there = partition.positions_of(new)
    assert places.tolist() == [20 * number + 20 for number in range(3) for _ in range(10)]
    assert not there.any()
    assert sum(cut_out) == 60


@pytest.mark.slow
@examples(200)
@given(edited_partitions(), st.sampled_from(["", "of chunks", "of all"]), st.integers(0, 12))
@example((RowOrder(ORDERS[0], Interner()), [(0, 0), (1, 0), (1, 1), (2, 0)], [(1, 0)], [-1]), "of all", 0)
@pytest.mark.usefixtures("small_is_large")
def test_edits_at_once_make_what_they_make_one_by_one(drawn, groups_known, asked):
    """Also what was known of peer groups before: of each chunk, or of all rows and of one chunk."""
    order, rows, changed, copies = drawn
    one_by_one, at_once = partition_of(order, rows), partition_of(order, rows)
    for partition in (one_by_one, at_once):
        with pytest.MonkeyPatch.context() as patch:
            if groups_known == "of all":
                patch.setattr(order_index, "MANY", 0)
                patch.setattr(order_index, "CHUNKS", 2**62)
            assert not groups_known or partition.groups_before(np.array([len(rows)])).item() == partition.groups
        assert not groups_known or groups_before(partition, [asked])[0] <= partition.groups
    places, _ = at_once.positions_of(np.array(changed).T)
    edits = Edits(places, np.array(changed).T, np.array(copies))
    for number in reversed(range(len(changed))):  # places are those before all of them
        one_by_one.apply(edits.part(number, number + 1))
    at_once.apply(edits)
    assert len(one_by_one) == len(at_once)
    assert len(at_once) == len(rows) + sum(copies)
    if len(at_once):
        assert one_by_one.between(0, len(one_by_one)).tolist() == at_once.between(0, len(at_once)).tolist()
        anew = partition_of(order, at_once.between(0, len(at_once)).T.tolist())
        assert at_once.groups == one_by_one.groups == anew.groups
        places = np.arange(len(at_once) + 1)
        assert groups_before(at_once, places) == groups_before(one_by_one, places)
        assert at_once.peers_end(places).tolist() == one_by_one.peers_end(places).tolist()


@pytest.mark.parametrize(("gone", "come"), [((1, 0), (1, 5)), ((1, 5), (1, 0))])
def test_groups_are_counted_anew_where_an_edit_moves_the_first_peer_to_another_chunk(gone, come, small_is_large):
    """The last row of a chunk is, or was, the first peer of the next chunk's rows, of which no other is edited."""
    order = RowOrder([SortColumn(0, INT64), SortColumn(1, INT64)], Interner())
    index = partition_of(order, [(0, 0), gone, (1, 7), (1, 8), (2, 0), (2, 1)])
    assert groups_before(index, range(7)) == [0, 1, 2, 2, 2, 3, 3]
    for row, copies in ((gone, -1), (come, 1)):
        index.apply(Edits(np.array([index.position_of(list(row))]), np.array([row]).T, np.array([copies])))
        rows = index.between(0, len(index)).T.tolist()
        anew = partition_of(order, rows)
        assert index.groups == anew.groups
        assert groups_before(index, range(len(rows) + 1)) == groups_before(anew, range(len(rows) + 1))
        starts = np.arange(index.groups + 2)
        assert index.group_starts(starts).tolist() == anew.group_starts(starts).tolist()


@pytest.mark.parametrize("first", [SortColumn(0, INT64, nulls_first=False), SortColumn(0, INT64, descending=True)])
def test_groups_of_many_places_are_those_of_each_where_null_is_beside_the_greatest_value(first, few_are_many):
    """NULL and the value beside it have one sort number, but are no peers."""
    order = RowOrder([first], Interner(), [SortColumn(1, INT64)])
    partition = partition_of(order, sorted([(t, i) for t in (5, 2**63 - 1, NULL) for i in range(3)], key=order.key))
    one_by_one = groups_before(partition, range(10))
    assert one_by_one == [0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert partition.groups_before(np.arange(10)).tolist() == one_by_one
    assert partition.group_starts(np.arange(5)).tolist() == [0, 3, 6, 9, 9]


def test_many_places_are_few_in_a_partition_of_many_chunks(small_is_large, monkeypatch):
    """Where they are looked for chunk by chunk, its rows are not put together: that would cost as much as there are."""
    order = RowOrder([SortColumn(0, INT64)], Interner())
    few, many = (partition_of(order, [(i, 0) for i in range(size)]) for size in (200, 2000))
    places = np.arange(100)
    monkeypatch.setattr(OrderIndex, "_all_leads", property(lambda rows: pytest.fail(f"looks at all {len(rows)} rows")))
    for look in (OrderIndex.positions_of_numbers, OrderIndex.numbers_at, OrderIndex.groups_before):
        assert look(many, places).tolist() == places.tolist()
        with pytest.raises(pytest.fail.Exception, match="looks at all 200 rows"):
            look(few, places)
    assert many.group_starts(places).tolist() == places.tolist()


@examples(100)
@given(partitions(), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=5))
@pytest.mark.usefixtures("small_is_large")
def test_spans_are_cut_out_of_several_chunks(drawn, spans):
    order, rows = drawn
    partition = partition_of(order, rows)
    low = np.array([min(first, len(rows)) for first, _ in spans], np.int64)
    high = np.minimum(low + np.array([size for _, size in spans], np.int64), len(rows))
    expected = [row for first, end in zip(low.tolist(), high.tolist(), strict=True) for row in rows[first:end]]
    assert list(map(tuple, partition.spans(low, high).T.tolist())) == expected


REACHES = st.builds(
    lambda rows, groups, values: Reach(rows, groups, peers=groups != (0, 0) or bool(values), values=values),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.sampled_from([(0, 0), (1, 0), (0, 2)]),
    st.sampled_from([(), ((-1, 2),), ((1, 2),), ((-3, -1), (0, 1))]),
)


def one_of_twelve(columns):
    """A row more among twelve with the numbers 0 to 11."""
    order = RowOrder(columns, Interner())
    return order, sorted([(i, 0) for i in range(12)], key=order.key), [(6, 1)], [1]


def beside_a_group(place, beside):
    """A row more at one end of a group of peers, and one some rows from the group's other end, where frames enter it."""
    order = RowOrder(ORDERS[0], Interner())
    rows = [*((i, 0) for i in range(6)), *((6, i) for i in range(5)), *((i, 0) for i in range(7, 13))]
    return order, rows, sorted([place, beside]), [1, 1]


@pytest.mark.slow
@examples(300)
@example(one_of_twelve(ORDERS[0]), Reach((0, 0), (0, 0), peers=True, values=((-1, 2),)))
@example(one_of_twelve(ORDERS[1]), Reach((0, 0), (0, 0), peers=True, values=((-1, 2),)))
@example(beside_a_group((6, -1), (9, 1)), Reach((3, 0), peers=True))
@example(beside_a_group((6, 9), (3, 1)), Reach((0, 3), peers=True))
@given(edited_partitions(), REACHES)
@pytest.mark.usefixtures("few_are_many")
def test_runs_cover_those_found_one_by_one(drawn, reach):
    """And nothing that a run looks at is edited by another."""
    order, rows, changed, copies = drawn
    partition, first = partition_of(order, rows), order.columns[0]
    by = OrderColumn(0, first.descending, first.nulls_first)
    places, _ = partition.positions_of(np.array(changed).T)
    edits = Edits(places, np.array(changed).T, np.array(copies))
    runs = affected(partition, edits, reach, by, INT64)
    ends = [*runs.edits[1:].tolist(), len(changed)]
    for number, (begin, end) in enumerate(zip(runs.edits.tolist(), ends, strict=True)):
        low, high, looked_low, looked_high = (some.item(number) for some in runs[1:])
        assert looked_low <= low <= high <= looked_high
        for some in [edits.part(i, i + 1) for i in range(begin, end)]:
            one = affected(partition, some, reach, by, INT64)
            assert low <= one.low <= one.high <= high
            assert looked_low <= one.first <= one.end <= looked_high
        others = [i for i in range(len(changed)) if not begin <= i < end]
        assert all(edits.ends[i] < looked_low or places[i] > looked_high for i in others)


@pytest.mark.slow
@examples(150)
@given(st.data())
@pytest.mark.usefixtures("few_are_many")
def test_any_calls(data):
    some = data.draw(st.lists(calls(TXY | {"n": "int32"}, W, "int64"), min_size=1, max_size=2))
    flow = tm.Dataflow("windows")
    rows = flow.input("x", TXY | {"n": "int32"})
    flow.output("y", rows.with_columns(**{f"c{i}": call for i, call in enumerate(some)}))
    values = {"k": [1, 2], "t": [None, *range(12)], "x": [None, 1, 2, 5], "n": [1, 2]}
    found = data.draw(updates(TXY | {"n": "int32"}, 1, max_size=30, latest=3, non_negative=True, values=values))
    check_equivalent(flow, {"x": found}, batchings=[all_at_once, shuffled(1)])


ORDERED = tm.Window.order_by("t")
DOWN = tm.Window.order_by(tm.desc("t"))
BOUNDED = {
    "sum": tm.sum("x").over(ORDERED.rows_between(-4, 0)),
    "lag": tm.lag("x").over(ORDERED),
    "min": tm.min("x").over(ORDERED.rows_between(-5, 5)),
    "later": tm.max("x").over(ORDERED.rows_between(2, 4)),
    "groups": tm.min("x").over(ORDERED.groups_between(-2, 1)),
    "ties": tm.count().over(ORDERED.groups_between(-2, 1).exclude("ties")),
    "range": tm.sum("x").over(ORDERED.range_between(-6, 3)),
    "down": tm.sum("x").over(DOWN.range_between(-6, -2)),
    "floats": tm.count().over(tm.Window.order_by("f").range_between(-1.5, 0.5)),
    "several": tm.sum("x").over(tm.Window.order_by("t", "f").groups_between(-1, 1)),
    "place": tm.rank().over(ORDERED),
    "number": tm.row_number().over(ORDERED),
    "places of groups": tm.dense_rank().over(DOWN),
    "share": tm.percent_rank().over(ORDERED),
    "tiles": tm.ntile(7).over(ORDERED),
    "so far": tm.sum("x").over(ORDERED.rows_between(tm.UNBOUNDED, 0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDED)
def test_twenty_rows_of_two_hundred(name, monkeypatch, at_once, in_order):
    """In chunks of eight rows and with rows that are there several times; to and fro, beside the reference engine."""
    monkeypatch.setattr(order_index, "CHUNK", 8)
    for limit, value in (("LARGE", 100), ("MANY", 4)):
        monkeypatch.setattr(ordered_windows, limit, value)
    dice = np.random.default_rng(7)
    flow = tm.Dataflow("bulk")
    rows = flow.input("rows", {"t": "int64", "x": "int64", "f": "float64"})
    flow.output("y", rows.with_columns(y=BOUNDED[name]))

    def some(count):
        t = pa.array(dice.integers(0, 80, count), mask=dice.random(count) < 0.02)
        return pa.table({"t": t, "x": dice.integers(0, 4, count), "f": dice.integers(0, 9, count) / 4})

    check_steps(flow, to_and_fro(dice, some(200), some(20), 20))
    assert len(at_once) == 3
    assert len(in_order) == 3


@pytest.mark.usefixtures("few_are_many")
def test_rows_that_come_where_none_are_looked_at(at_once):
    """No call looks at a row but its own: so there is none before."""
    flow = tm.Dataflow()
    rows = flow.input("rows", {"t": "int64", "x": "int64"})
    flow.output("y", rows.with_columns(y=tm.first_value("x").over(ORDERED.rows_between(0, 0))))
    loaded, more = [pa.table({"t": [2 * i + n for i in range(12)], "x": range(12)}) for n in (0, 1)]
    apart = more.take(pa.array([0, 4, 8]))
    check_steps(flow, [[("insert", loaded)], [("insert", apart)], [("delete", apart)]])
    assert len(at_once) == 2


def test_too_few_copies_among_many_are_refused(few_are_many, at_once):
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", {"t": "int64"}).with_columns(before=tm.lag("t").over(ORDERED)))
    with flow.start() as run:
        run.insert("x", [(t,) for t in range(20)])
        run.advance()
        run.insert("x", [(30,), (31,)])
        run.delete("x", [(7,), (8,), (8,)])
        with pytest.raises(tm.errors.TidemillError, match="-1"):
            run.advance()
        run.insert("x", [(8,)])
        run.advance()
        assert sorted(row[0] for row in run.snapshot("y")) == [*(t for t in range(20) if t not in {7, 8}), 30, 31]
    assert at_once


def test_too_many_copies_among_many_are_refused(few_are_many, monkeypatch):
    monkeypatch.setattr(ordered_windows, "MOST_COPIES", 3)
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", {"t": "int64"}).with_columns(before=tm.lag("t").over(ORDERED)))
    with flow.start() as run:
        run.insert("x", [(t,) for t in range(20)])
        run.advance()
        run.insert("x", [(4,)] * 2)
        run.insert("x", [(5,)])
        run.advance()
        seen = []
        monkeypatch.setattr(
            ordered_windows, "too_many_copies", lambda count: seen.append(count) or f"{count} copies more"
        )
        run.insert("x", [(4,), (6,)])
        run.advance()
        assert seen == [1]  # computed whole then, where the limit is as it was


def test_what_was_worked_out_of_a_step_that_is_computed_whole_goes_nowhere(few_are_many, monkeypatch):
    """Changes of two partitions, where a call has no value for a row that is only looked at."""

    def refuse(*_given, **_named):
        raise CallError(0, np.zeros(2, np.int64), "of a row that is only looked at")

    monkeypatch.setattr(changes.Evaluator, "changed", refuse)
    flow = tm.Dataflow()
    before = tm.lag("t").over(tm.Window.partition_by("k").order_by("t"))
    flow.output("y", flow.input("x", {"k": "int64", "t": "int64"}).with_columns(before=before))
    with flow.start() as run:
        run.insert("x", [(k, t) for k in (0, 1) for t in range(10)])
        run.advance()
        run.insert("x", [(0, 20), (0, 30), (1, 20)])
        run.advance()
        come = [update for update in run.changes("y") if update[1] == 1]
        assert sorted(come) == [((0, 20, 9), 1, 1), ((0, 30, 20), 1, 1), ((1, 20, 9), 1, 1)]
