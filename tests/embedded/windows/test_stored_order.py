"""Large partitions that were spilled lie on the disk in their order, and steps read the pages that they look at."""

import weakref

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_windows import FEW, TXY, W, calls
from support.running import examples

import tidemill as tm
from tidemill.boundary.rows import checked_rows
from tidemill.expressions.schema import Schema
from tidemill.expressions.types import INT64
from tidemill.renderer.durable import page_order, spill_files, spilled
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.reduce import ordered_windows
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.trace.stored_order import KeyOrder, StoredPage
from tidemill.renderer.embedded.windows.chunks import Edits
from tidemill.renderer.embedded.windows.order_index import OrderIndex

PAGE = 512
MANY = 40 * PAGE
COLUMNS = ("k", "t", "x")

CALLS = {
    "lag": tm.lag("x").over(W),
    "rows": tm.avg("x").over(W.rows_between(-4, 0)),
    "range": tm.max("x").over(W.range_between(-5, 5)),
    "groups": tm.sum("x").over(W.groups_between(-2, 2).exclude("ties")),
    "non-null": tm.lead("x", 2, ignore_nulls=True).over(W),
}


@pytest.fixture(autouse=True)
def _short_pages(monkeypatch):
    monkeypatch.setattr(spill_files, "PAGE", PAGE)
    monkeypatch.setattr(spill_files, "PAGE_IN_ORDER", PAGE)


@pytest.fixture
def pages_read(monkeypatch):
    """The pages that were read, each time some were."""
    found = []
    read = spill_files.Pages.read
    monkeypatch.setattr(spill_files.Pages, "read", lambda pages, which: found.append(list(which)) or read(pages, which))
    return found


@pytest.fixture
def stored(monkeypatch):
    """Of how many pages partitions were made that lie on the disk in their order."""
    found = []
    made = OrderIndex.stored
    monkeypatch.setattr(
        OrderIndex, "stored", staticmethod(lambda pages, by: found.append(len(pages)) or made(pages, by))
    )
    return found


def table(count, partitions=1, peers=1):
    numbers = np.random.default_rng(1).permutation(count)
    return pa.table({"k": numbers % partitions, "t": numbers // peers, "x": numbers % 7})


def flow_of(**chosen):
    flow = tm.Dataflow("stored")
    flow.output("y", flow.input("x", TXY).with_columns(**chosen))
    return flow


def step(*runs, come=(), go=()):
    for run in runs:
        run.insert("x", list(come))
        run.delete("x", list(go))
        run.advance()


def taken(run, come, go):
    """Return whether a run takes a step; it refuses one in which a value cannot be computed, as a sum that is too large."""
    try:
        step(run, come=come, go=go)
    except tm.errors.ExpressionError:
        return False
    return True


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("peers", [1, 10])
def test_a_step_reads_the_pages_that_its_change_reaches(name, peers, pages_read, stored):
    flow = flow_of(call=CALLS[name])
    data, at = table(MANY, peers=peers), MANY // peers // 2
    with flow.start(tm.Embedded(in_memory=1 << 40)) as run, flow.start() as memory:
        for each in (run, memory):
            each.insert("x", data)
            each.advance()
        run.spill()
        pages_read.clear()
        step(run, memory, come=[(0, at, 5)], go=[(0, 0, 0)])
        assert len(stored) == 1
        assert stored[0] >= 40
        assert sum(map(len, pages_read)) <= 4  # the first page, the change's, and perhaps a neighbour
        pages_read.clear()
        step(run, memory, come=[(0, at, 6)], go=[(0, at, 5)])
        assert pages_read == []
        run.spill()  # what changed lies in a file of its own now
        step(run, memory, come=[(0, at, 7)])
        assert sum(map(len, pages_read)) <= 5
        pages_read.clear()
        assert run.snapshot("y").counts() == memory.snapshot("y").counts()


def test_ranks_read_the_pages_that_rows_moved_across(pages_read):
    """Peer groups are counted where rows are written."""
    calls = {"dense": tm.dense_rank().over(W), "place": tm.rank().over(W)}
    flow = flow_of(**calls)
    with flow.start(tm.Embedded(in_memory=1 << 40)) as run, flow.start() as memory:
        for each in (run, memory):
            each.insert("x", table(MANY, peers=3))
            each.advance()
        run.spill()
        pages_read.clear()
        at = MANY // 3 // 2
        step(run, memory, come=[(0, at, 2), (0, at + 4, 2)], go=[(0, at + 1, (3 * at + 3) % 7)])
        step(run, memory, go=[(0, at + 4, 2)], come=[(0, at + 1, (3 * at + 3) % 7)])
        step(run, memory, go=[(0, at, 2)])
        assert sum(map(len, pages_read)) <= MANY // PAGE // 2 + 3  # an insert moves all that are after it
        assert run.snapshot("y").counts() == memory.snapshot("y").counts()


def test_only_pages_that_were_read_count_as_held():
    flow = flow_of(lag=tm.lag("x").over(W))
    with flow.start(tm.Embedded(in_memory=1 << 40)) as run:
        run.insert("x", table(MANY))
        run.advance()
        run.spill()
        step(run, come=[(0, MANY // 2, 1)])
        (operator,) = [m for m in run.metrics() if m.kind == "Reduce"]
        assert operator.bytes < 8 * PAGE * len(COLUMNS) * 8


def test_what_is_in_memory_is_there_after_a_step_that_was_refused(pages_read, stored):
    """What was read for that is dropped, but not what steps before it changed."""
    flow = flow_of(**CALLS)
    at = MANY // 2
    with flow.start(tm.Embedded(in_memory=1 << 40)) as run, flow.start() as memory:
        for each in (run, memory):
            each.insert("x", table(MANY))
            each.advance()
        run.spill()
        step(run, memory, come=[(0, at, 50)])
        run.insert("x", [(0, at, 70)])
        run.delete("x", [(0, at, 60)])
        with pytest.raises(tm.errors.StepError):
            run.advance()
        run.discard()
        pages_read.clear()
        step(run, memory, come=[(0, at, 80)], go=[(0, at, 50)])
        assert len(stored) == 2
        assert sum(map(len, pages_read)) <= 4
        assert run.snapshot("y").counts() == memory.snapshot("y").counts()


@pytest.mark.parametrize("times", [2, 9 * PAGE])
def test_rows_that_are_there_several_times(times, stored):
    """Each copy is a row where they are few; of many, the partition is read whole."""
    flow = flow_of(**CALLS)
    data = table(4 * PAGE)
    with flow.start(tm.Embedded(in_memory=1 << 40)) as run, flow.start() as memory:
        for each in (run, memory):
            each.insert("x", data)
            each.insert("x", [(0, PAGE, PAGE % 7)] * (times - 1))
            each.advance()
        run.spill()
        step(run, memory, come=[(1, 1, 1)])
        run.spill()
        run.compact()  # what is merged has one row for copies
        step(run, memory, come=[(0, PAGE, 5)], go=[(0, PAGE, PAGE % 7)])
        assert len(stored) == (times == 2)
        assert run.snapshot("y").counts() == memory.snapshot("y").counts()


def test_rows_that_came_in_several_parts_are_merged_once(pages_read, stored):
    flow = flow_of(lag=tm.lag("x").over(W))
    data = table(MANY)
    with flow.start(tm.Embedded(in_memory=1 << 40)) as run, flow.start() as memory:
        for start, size in ((0, 28 * PAGE), (28 * PAGE, 7 * PAGE), (35 * PAGE, 5 * PAGE)):
            for each in (run, memory):
                each.insert("x", data.slice(start, size))
                each.advance()
            run.spill()
        step(run, memory, come=[(0, 5, 5)])
        assert len(stored) == 1 or stored[-1] >= 40
        run.spill()
        pages_read.clear()
        step(run, memory, come=[(0, MANY // 2, 5)])
        assert sum(map(len, pages_read)) <= 5
        assert run.snapshot("y").counts() == memory.snapshot("y").counts()


@pytest.mark.usefixtures("small_is_large")
def test_keys_whose_hash_is_the_same(monkeypatch):
    """As if there were no hashes: partitions may lie between each other's rows."""
    monkeypatch.setattr(spill_files.Layout, "key_hashes", lambda self, columns, count: np.zeros(count, np.int64))
    flow = flow_of(**CALLS)
    with flow.start(tm.Embedded(in_memory=0)) as run, flow.start(tm.Reference()) as reference:
        for come in (
            [(1, t, t) for t in range(20)],
            [(2, t, t) for t in range(20)],
            [(1, 3, 3)],
            [(2, 7, 1)],
            [(3, 1, 1)],
        ):
            step(run, reference, come=come)
            run.spill()
        assert run.snapshot("y").counts() == reference.snapshot("y").counts()


def test_only_partitions_that_lie_in_order_are_looked_at_one_by_one(monkeypatch, stored):
    """Of many small ones beside a large one nothing is asked but their hashes."""
    asked, stored_of = [], spilled.SpilledSpine._stored
    monkeypatch.setattr(spilled.SpilledSpine, "_stored", lambda *given: asked.append(given) or stored_of(*given))
    flow = flow_of(lag=tm.lag("x").over(W))
    with flow.start(tm.Embedded(in_memory=1 << 40)) as run, flow.start() as memory:
        for each in (run, memory):
            each.insert("x", table(3 * PAGE))
            each.insert("x", [(k, t, t) for k in range(1, 100) for t in range(3)])
            each.advance()
        run.spill()
        step(run, memory, come=[(k, 1, 7) for k in range(100)])
        assert len(asked) == len(stored) == 1
        assert run.snapshot("y").counts() == memory.snapshot("y").counts()


@pytest.mark.usefixtures("small_is_large")
def test_files_whose_updates_all_cancel_are_merged_into_none(monkeypatch):
    """As executors leave them that take large changes: nobody has merged them, and nobody looked up a key."""
    monkeypatch.setattr(spilled.SpilledSpine, "settle", lambda *_: None)
    monkeypatch.setattr(ordered_windows, "MANY", 4)
    flow = flow_of(lag=tm.lag("x").over(W))
    some, more = ([(0, t, t) for t in range(*places)] for places in ((0, 40), (40, 60)))
    with flow.start(tm.Embedded(in_memory=1 << 40)) as run:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spilled.SpilledSpine, "in_order", lambda *_: {})
            for come, go in ((some, []), (more, []), ([], some + more)):
                step(run, come=come, go=go)
                run.spill()
        step(run, come=[(0, 1, 5)])
        assert list(run.snapshot("y")) == [(0, 1, 5, None)]


def test_a_page_that_is_damaged_is_no_part_of_an_answer(tmp_path):
    flow = flow_of(lag=tm.lag("x").over(W))
    engine = tm.Embedded(tmp_path / "run", in_memory=1 << 40)
    with flow.start(engine) as run:
        run.insert("x", table(MANY))
        run.advance()
        run.spill()
        for path in (tmp_path / "run" / "cold").glob("*.pages"):
            content = bytearray(path.read_bytes())
            middle = len(content) // 2
            content[middle - 20_000 : middle + 20_000] = bytes(40_000)
            path.write_bytes(content)
        with pytest.raises(tm.errors.StateError, match="not a whole file"):
            for at in range(0, MANY, PAGE // 2):
                step(run, come=[(0, at, 5)])


TYPES = ["int64", "float64", "string", "timestamp", "decimal(6,2)", "decimal(30,2)", "bool"]


@pytest.mark.slow
@pytest.mark.usefixtures("small_is_large")
@examples(60)
@given(st.data())
def test_any_calls_over_rows_on_the_disk(data):
    """Spilled after any step, restarted, swept of values that nothing refers to: the reference engine's values."""
    t = data.draw(st.sampled_from(TYPES))
    schema = {"k": "string", "t": t, "x": data.draw(st.sampled_from(TYPES)), "n": "int32"}
    how = data.draw(st.sampled_from([tm.asc, tm.desc]))
    window = tm.Window.partition_by("k").order_by(how("t", nulls=data.draw(st.sampled_from(["first", "last"]))))
    chosen = data.draw(st.lists(calls(schema, window, t), min_size=1, max_size=2))
    flow = tm.Dataflow("stored")
    flow.output("y", flow.input("x", schema).with_columns(**{f"c{i}": call for i, call in enumerate(chosen)}))
    values = st.tuples(st.sampled_from(["a", "a", "b"]), *(st.none() | FEW[c] for c in (t, schema["x"], "int32")))
    rows = []
    with flow.start(tm.Embedded(in_memory=1 << 20)) as run, flow.start(tm.Reference()) as reference:
        for _ in range(data.draw(st.integers(2, 5))):
            come = checked_rows(Schema.of(schema), data.draw(st.lists(values, max_size=12)), "rows")
            go = data.draw(st.lists(st.sampled_from(range(len(rows))), max_size=3, unique=True)) if rows else []
            gone = [rows[i] for i in go]
            took = taken(reference, come, gone)
            assert taken(run, come, gone) is took
            if took:
                rows += come
                for row in gone:
                    rows.remove(row)
            else:
                for each in (run, reference):
                    each.discard()
            if data.draw(st.booleans()):
                run.spill()
            if data.draw(st.booleans()):
                run.compact()
            assert run.snapshot("y").counts() == reference.snapshot("y").counts()


ORDER = RowOrder([SortColumn(0, INT64), SortColumn(1, INT64, descending=True)], Interner())
PAIRS = st.tuples(st.integers(0, 5), st.integers(0, 3))


def pages_of(rows):
    """Return rows as they would lie in pages of two or more."""
    codes = np.array(rows).T
    order, pages, about = page_order._in_order(
        np.concatenate((codes, np.ones((1, len(rows)), np.int64))), KeyOrder(ORDER, 1), 2
    )
    codes = codes.take(order, axis=1)
    read = [lambda low=low, high=high: codes[:, low:high].copy() for low, high in pages]
    return [StoredPage(a, b, n, groups, look) for (a, b, n, groups), look in zip(about, read, strict=True)]


@examples(200)
@given(
    st.lists(PAIRS, min_size=1, max_size=12),
    st.lists(
        st.tuples(PAIRS, st.booleans(), st.booleans(), st.sampled_from(["groups", "peers", "rows", ""])), max_size=8
    ),
)
def test_a_partition_in_pages_is_one_in_memory(rows, edits):
    """Whatever is asked of it between changes, which reads some of its pages."""
    partition = OrderIndex.stored(pages_of(rows), KeyOrder(ORDER, 1))
    rows = sorted(rows, key=ORDER.key)
    for pair, goes, is_there, asked in edits:
        row = rows[hash(pair) % len(rows)] if is_there or goes else pair
        if goes and len(rows) > 1:
            partition.apply(Edits(np.array([partition.position_of(list(row))]), np.array([row]).T, np.array([-1])))
            rows.remove(row)
        else:
            partition.apply(Edits(np.array([partition.position_of(list(row))]), np.array([row]).T, np.array([1])))
            rows = sorted([*rows, row], key=ORDER.key)
        starts = [i for i, (t, _) in enumerate(rows) if not i or rows[i - 1][0] != t]
        assert len(partition) == len(rows) >= partition.in_memory
        if asked == "groups":
            assert partition.groups == len(starts)
            assert partition.group_starts(np.arange(len(starts) + 1)).tolist() == [*starts, len(rows)]
        elif asked == "peers":
            at = np.array([len(rows) // 2])
            assert partition.peers_start(at) == max(s for s in starts if s <= at)
            assert partition.groups_before(at) == sum(s < at for s in starts)
        elif asked == "rows":
            assert partition.position_of(list(rows[-1])) == rows.index(rows[-1])
    assert partition.between(0, len(rows)).T.tolist() == list(map(list, rows))
    assert partition.in_memory == len(rows)


def test_rows_of_a_page_are_there_once_after_a_change():
    """What was read is let go of once chunks with the change have taken its place."""
    partition = OrderIndex.stored(pages_of([(t, 0) for t in range(8)]), KeyOrder(ORDER, 1))
    read = weakref.ref(partition.between(4, 5).base)
    assert partition.in_memory == 4
    partition.apply(Edits(np.array([4]), np.array([[3, 1]]).T, np.array([1])))
    assert partition.in_memory == 5
    assert read() is None


def test_pages_of_a_file_that_was_merged_are_read_afterwards(monkeypatch):
    """Of a partition in its order pages are read as they are looked at, when their file may have been swept."""
    monkeypatch.setattr(spill_files, "PAGE_IN_ORDER", 512)
    flow = tm.Dataflow("merged")
    nearby = tm.Window.partition_by("k").order_by("t").rows_between(-1, 1)
    x = flow.input("x", {"k": "int64", "t": "int64", "x": "int64"})
    flow.output("y", x.with_columns(near=tm.sum("x").over(nearby)))

    def step(runs, *ranges):
        for key, first, end in ranges:
            times = np.arange(first, end)
            for run in runs:
                run.insert("x", pa.table({"k": np.full(len(times), key), "t": times, "x": times}))
        for run in runs:
            run.advance()

    with flow.start(tm.Embedded(in_memory=1 << 40)) as run, flow.start() as in_memory:
        runs = run, in_memory
        step(runs, (1, 0, 20_000), (2, 0, 20_000))
        run.spill()
        step(runs, (2, 50_000, 51_200))
        run.spill()
        step(runs, (1, 100, 101))
        run.compact()
        step(runs, (1, 15_000, 15_001))
        assert list(run.changes("y")) == list(in_memory.changes("y"))
        assert run.snapshot("y").counts() == in_memory.snapshot("y").counts()
