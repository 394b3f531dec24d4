"""Of tables only what is read is encoded; what comes of it, and what is counted, is as without that."""

import datetime as dt
import decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

import tidemill as tm
from tidemill.errors import StepError
from tidemill.renderer.embedded.kernels import codec
from tidemill.renderer.embedded.operators import arrange, input_output, table_encoder
from tidemill.renderer.embedded.trace import spine

COLUMNS = {
    "x": "int64", "name": "string", "price": "decimal(10, 2)", "day": "date", "f": "float64", "tags": "list<int64>",
}  # fmt: skip
SCHEMA = pa.schema({
    "x": pa.int64(), "name": pa.string(), "price": pa.decimal128(10, 2), "day": pa.date32(), "f": pa.float64(),
    "tags": pa.list_(pa.int64()),
})  # fmt: skip
ROWS = st.tuples(
    st.sampled_from([0, 1, 2, None]),
    st.sampled_from(["green", "a green one", "red", None]),
    st.sampled_from([decimal.Decimal("1.50"), decimal.Decimal("-0.01"), None]),
    st.sampled_from([dt.date(2024, 1, 1), dt.date(2024, 1, 2), None]),
    st.sampled_from([0.0, -0.0, float("nan"), None]),
    st.sampled_from([[1], [], None]),
)
PREDICATES = [
    "x < 2",
    "x < 2 AND day > DATE '2024-01-01'",
    "name LIKE '%green%'",
    "name = 'red' OR x = 1",
    "price > 0 AND x <> 1",
    "name IS NULL",
    "f = 0",
    "10 / x > 5",
    "x < 0",
    None,
]
READERS = {
    "sums": lambda rows: rows.group_by("x").agg(n=tm.count(), price=tm.sum("price")),
    "names": lambda rows: rows.select("name").distinct(),
    "count": lambda rows: rows.agg(n=tm.count()),
    "computed": lambda rows: rows.select("day", y=tm.coalesce("x", 0) + 1),
    "all": lambda rows: rows,
    "tags": lambda rows: rows.select("tags", "f").consolidate(),
    "inverse": lambda rows: rows.select(y=1 / tm.col("x")),
    "two": lambda rows: rows.select("x").concat(rows.select(x=tm.coalesce("x", 1))),
    "joined": lambda rows: rows.select("x", "day").join(rows.select("x", p="price").distinct(), on="x"),
}


@pytest.fixture(params=[2, 1 << 16], ids=["long columns", "short columns"])
def any_is_large(monkeypatch, request):
    monkeypatch.setattr(input_output, "FEW", 0)
    monkeypatch.setattr(input_output, "LARGE", 0)
    monkeypatch.setattr(arrange, "_SORTED", 3)
    monkeypatch.setattr(codec, "_LONG", request.param)
    monkeypatch.setattr(table_encoder, "PART", 3)
    monkeypatch.setattr(table_encoder, "_MANY", 0)
    monkeypatch.setattr(spine, "TAIL", 3)


def table(rows):
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)],
                                schema=SCHEMA)  # fmt: skip


def flow_of(predicate, reader, coordinates=1):
    flow = tm.Dataflow(time=["first", "second", "third"][:coordinates])
    rows = flow.input("rows", COLUMNS)
    flow.output("out", READERS[reader](rows if predicate is None else rows.filter(predicate)))
    return flow


def put(run, changes, coordinates):
    """Put changes into a run, take the steps, and return what came out, or the error."""
    found: list[object] = []
    for closed in (1, 2, 3):
        for rows, at, sign in changes:
            if at == closed - 1:
                time = at if coordinates == 1 else (at,) + (0,) * (coordinates - 1)
                (run.insert if sign > 0 else run.delete)("rows", table(rows), time=time)
        try:
            run.advance_to(closed if coordinates == 1 else (closed,) + (0,) * (coordinates - 1))
        except StepError as error:
            run.discard()
            found.append(type(error.__cause__ or error).__name__)
        found.append(sorted(map(repr, run.changes("out"))))
    return found


CHANGES = st.lists(
    st.tuples(st.lists(ROWS, min_size=1, max_size=8), st.integers(0, 2), st.sampled_from([1, -1])), max_size=4
)


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", [1, 2, 3])
def test_what_comes_out_is_what_the_reference_gives(any_is_large, coordinates):
    @examples(120)
    @given(CHANGES, st.sampled_from(PREDICATES), st.sampled_from(sorted(READERS)))
    def check(changes, predicate, reader):
        flow = flow_of(predicate, reader, coordinates)
        with flow.start() as run, flow.start(tm.Reference()) as reference:
            assert put(run, changes, coordinates) == put(reference, changes, coordinates)

    check()


@pytest.mark.parametrize("count", [2, arrange.LARGE, arrange.LARGE + 1, 3 * arrange.LARGE])
def test_equal_rows_of_a_large_table_come_out_as_one_update(count):
    with flow_of("x < 2", "all").start() as run:
        run.insert("rows", table([(0, "green", None, None, None, None)] * count))
        run.insert("rows", table([(3, "green", None, None, None, None)] * count))
        run.advance()
        assert [diff for _, _, diff in run.changes("out")] == [count]
        run.delete("rows", table([(0, "green", None, None, None, None)] * count))
        run.advance()
        assert [diff for _, _, diff in run.changes("out")] == [-count]


def test_what_is_counted_is_what_came(any_is_large, monkeypatch):
    rows = [(i, "green" if i % 3 else "red", None, None, None, None) for i in range(20)]

    def counted(early):
        if not early:
            monkeypatch.setattr(input_output, "FEW", 100)
        with flow_of("name LIKE '%green%'", "sums").start() as run:
            run.insert("rows", table(rows))
            run.discard()
            run.insert("rows", table(rows), time=0)
            run.advance_to(1)
            run.insert("rows", table(rows), time=1)
            run.insert("rows", table(rows[:5]), time=2)
            run.advance_to(2)
            run.discard()
            run.advance_to(3)
            return [(m.kind, m.records_in, m.records_out) for m in run.metrics()]

    assert counted(early=True) == counted(early=False)


def test_values_that_only_the_filter_reads_are_not_interned(any_is_large):
    rows = [(1, f"green {i}", None, None, None, None) for i in range(50)]
    with flow_of("name LIKE '%green%'", "sums").start() as run:
        run.insert("rows", table(rows))
        assert run.metrics().memory.interned == 1  # one text
        run.advance()
        assert [row for row, _, _ in run.changes("out")] == [(1, 50, None)]


def test_a_filter_of_one_of_two_readers_drops_nothing_early(any_is_large):
    flow = tm.Dataflow()
    rows = flow.input("rows", COLUMNS)
    flow.output("some", rows.filter("x = 1").agg(n=tm.count()))
    flow.output("all", rows.agg(n=tm.count()))
    with flow.start() as run:
        run.insert("rows", table([(i % 2, None, None, None, None, None) for i in range(10)]))
        run.advance()
        assert [list(run.snapshot(name)) for name in ("some", "all")] == [[(5,)], [(10,)]]


def test_two_tables_of_one_time_and_rows_between_them(any_is_large):
    flow = flow_of("name LIKE '%green%'", "sums")
    rows = [(i % 2, "green" if i % 3 else "red", decimal.Decimal("1.50"), None, None, None) for i in range(10)]
    with flow.start() as run:
        run.insert("rows", table(rows))
        run.insert("rows", [(0, "green", None, None, None, None), (0, "red", None, None, None, None)])
        run.insert("rows", table(rows))
        run.delete("rows", table(rows))
        run.delete("rows", rows)
        run.advance()
        assert [row for row, _, _ in run.changes("out")] == [(0, 1, None)]


def test_values_that_nobody_reads_are_not_interned(any_is_large):
    rows = [(i % 2, f"green {i}", None, None, None, None) for i in range(50)]
    with flow_of(None, "sums").start() as run:
        run.insert("rows", table(rows))
        assert run.metrics().memory.interned == 0
        run.advance()
        assert sorted(row for row, _, _ in run.changes("out")) == [(0, 25, None), (1, 25, None)]


def test_what_one_of_two_readers_reads_is_there(any_is_large):
    flow = tm.Dataflow()
    rows = flow.input("rows", COLUMNS)
    flow.output("by_x", rows.group_by("x").agg(n=tm.count()))
    flow.output("names", rows.filter("x = 1").select("name", y=tm.coalesce("x", 0)))
    with flow.start() as run:
        run.insert("rows", table([(i % 2, f"a {i}", None, None, None, None) for i in range(4)]))
        run.advance()
        assert [list(run.snapshot(name)) for name in ("by_x", "names")] == [[(0, 2), (1, 2)], [("a 1", 1), ("a 3", 1)]]


def test_a_unique_input_tells_rows_apart_by_what_nobody_reads(any_is_large):
    flow = tm.Dataflow()
    rows = flow.input("rows", {"x": "int64", "name": "string"}, unique=True)
    flow.output("out", rows.group_by("x").agg(n=tm.count()))
    with flow.start() as run:
        run.insert("rows", pa.table({"x": [1, 1], "name": ["a", "b"]}))
        run.advance()
        assert list(run.snapshot("out")) == [(1, 2)]


@pytest.mark.parametrize("predicate", [None, "x < 5", "name LIKE 'a%'"])
def test_an_error_shows_the_whole_row(any_is_large, predicate):
    rows = [(0 if i == 7 else 1, f"a {i}", None, dt.date(2024, 1, 1), None, None) for i in range(9)]
    later = [(0, "a later one", None, None, None, None)] * 2
    with flow_of(predicate, "inverse").start() as run:
        run.insert("rows", table(rows[:5]), time=0)
        run.insert("rows", table(later), time=1)
        run.insert("rows", table(rows[5:]), time=0)
        for _ in range(2):
            with pytest.raises(tm.errors.ExpressionError, match=r"'a 7', None, datetime.date\(2024, 1, 1\)"):
                run.advance_to(1)
        run.delete("rows", table(rows[7:8]), time=0)
        run.advance_to(1)
        with pytest.raises(tm.errors.ExpressionError, match="'a later one'"):
            run.advance_to(2)
        run.discard()
        run.insert("rows", [(0, "a few", None, None, None, None)], time=1)
        with pytest.raises(tm.errors.ExpressionError, match="'a few'"):
            run.advance_to(2)


@pytest.mark.parametrize("predicate", [None, "x < 5", "name LIKE 'a%'"])
@pytest.mark.parametrize("goes_as_table", [False, True])
def test_a_row_that_is_taken_away_in_the_same_step_is_no_error(any_is_large, monkeypatch, predicate, goes_as_table):
    """Found by a test of errors: in another table the column that only the filter read had another row's value."""
    monkeypatch.setattr(input_output, "FEW", 1)
    rows = [(i % 2, f"a {i}", None, None, None, None) for i in range(4)]
    with flow_of(predicate, "inverse").start() as run:
        run.insert("rows", table(rows))
        run.delete("rows", table(rows[::2]) if goes_as_table else rows[::2])
        run.advance()
        assert [(row, diff) for row, _, diff in run.changes("out")] == [((1.0,), 2)]


def test_rows_that_wait_are_saved_whole(any_is_large, tmp_path):
    rows = [(0, "a", None, None, None, None), (1, "b", None, None, None, None)]
    flow = flow_of(None, "inverse")
    with flow.start() as run:
        run.insert("rows", table(rows))
        run.save(tmp_path / "state")
    with tm.load(tmp_path / "state", flow) as run:
        with pytest.raises(tm.errors.ExpressionError, match="row \\(0, 'a'"):
            run.advance()
        run.delete("rows", rows[:1])
        run.advance()
        assert [row for row, _, _ in run.changes("out")] == [(1.0,)]


def test_timestamps_are_truncated_and_the_rest_of_the_table_stays_where_it_is(any_is_large):
    flow = tm.Dataflow()
    sales = flow.input("sales", {"user": "string", "at": "timestamp", "amount": "float64"})
    by_day = sales.with_columns(day=tm.date_trunc("day", tm.col("at"))).group_by("day").agg(total=tm.sum("amount"))
    flow.output("out", by_day)
    moments = [dt.datetime(2024, 1, 1 + i % 2, i) for i in range(9)]
    with flow.start() as run:
        run.insert("sales", pa.table({"user": [f"u{i}" for i in range(9)], "at": moments, "amount": [0.5] * 9}))
        assert run.metrics().memory.interned == 0
        run.advance()
        assert list(run.snapshot("out")) == [(dt.datetime(2024, 1, 1), 2.5), (dt.datetime(2024, 1, 2), 2.0)]


def test_rows_that_pass_stay_rows(any_is_large):
    """Columns are left out of one by one: texts before they are encoded, numbers after."""
    flow = tm.Dataflow()
    rows = flow.input("rows", COLUMNS)
    flow.output("out", rows.filter("x < 7").select("x", "name", "price"))
    given = [(i % 10, f"a {i}", decimal.Decimal(i), None, None, None) for i in range(30)]
    with flow.start() as run:
        run.insert("rows", table(given))
        run.advance()
        assert list(run.snapshot("out")) == sorted(row[:3] for row in given if row[0] < 7)


def test_an_error_shows_the_row_with_what_only_the_filter_reads(any_is_large):
    flow = tm.Dataflow()
    rows = flow.input("rows", {"x": "int64", "name": "string"})
    flow.output("out", rows.filter("name LIKE '%green%'").select(y=10 / tm.col("x")))
    with flow.start() as run:
        run.insert("rows", pa.table({"x": [1, 5, 0, 3], "name": ["green 1", "red", "green 3", "green 4"]}))
        with pytest.raises(StepError, match="green 3"):
            run.advance()
