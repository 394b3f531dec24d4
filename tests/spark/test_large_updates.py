"""DataFrames of updates and of change feeds that do not come to the driver: as if every row had been put in by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

import tidemill as tm
from tidemill.errors import EngineError, RowError, TimeError

SCHEMA = {"k": "int64", "v": "int64", "l": "list<int64>", "unread": "string"}
ROW = "k bigint, v bigint, l array<bigint>, unread string"
ROWS = st.tuples(st.sampled_from([None, 0, 1]), st.integers(0, 2), st.sampled_from([None, (), (1, None)]), st.just("u"))
IN_DRIVER = [0, 2, 100]
"""Where all that comes is large, most is, and nothing, though it is looked at in files first."""


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    monkeypatch.setattr("tidemill.renderer.spark.live.incoming._FEW", 2)


def updated(coordinates):
    flow = tm.Dataflow("u") if coordinates == 1 else tm.Dataflow("u", time=("a", "b"))
    x = flow.input("x", SCHEMA).select("k", "v", "l")
    flow.output("rows", x)
    flow.output("sums", x.group_by("k").agg(n=tm.count(), v=tm.sum("v")))
    return flow


@pytest.mark.parametrize("coordinates", [1, 2])
def test_random_updates(spark, tmp_path_factory, coordinates):
    """Rows at several times, with several diffs, some of them later: by several engines, and gone on with by another."""
    times = st.tuples(*[st.integers(0, 2)] * coordinates)
    names = ["time"] if coordinates == 1 else ["a", "b"]
    form = f"{ROW}, {', '.join(f'{name} bigint' for name in names)}, diff bigint"
    middle, end = ((1, 2), (3, 3)) if coordinates == 2 else (1, 3)

    @examples(8, least=2)
    @given(
        st.lists(st.tuples(ROWS, times, st.sampled_from([-1, 1, 2])), min_size=3, max_size=8),
        st.sampled_from(IN_DRIVER),
    )
    def check(updates, in_driver):
        lines = [(k, v, None if l is None else list(l), u, *t, d) for (k, v, l, u), t, d in updates]
        frame, folder = spark.createDataFrame(lines, form), tmp_path_factory.mktemp("state")
        found = []
        for engine in (tm.Reference(), tm.Spark(spark, folder, in_driver=in_driver)):
            with updated(coordinates).start(engine) as run:
                triples = [(row, t if coordinates == 2 else t[0], d) for row, t, d in updates]
                run.update("x", triples if engine == tm.Reference() else frame)
                run.advance_to(middle)
                found.append([list(run.changes(name)) for name in ("rows", "sums")])
                if engine == tm.Reference():
                    run.advance_to(end)
                    found.append([list(run.changes(name)) for name in ("rows", "sums")])
        with updated(coordinates).start(tm.Embedded(folder)) as run:
            run.advance_to(end)
            found.append([list(run.changes(name)) for name in ("rows", "sums")])
        first, rest, by_spark, after_it = found
        assert by_spark == first
        assert after_it == rest

    check()


def keyed():
    flow = tm.Dataflow("feed")
    flow.output("rows", flow.input("x", {"k": "int64", "v": "int64 not null", "l": "list<int64>"}, key="k"))
    return flow


OPS = st.sampled_from(["insert", "U", "update", "delete", "D", "c"])
WRITES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), OPS, st.integers(0, 1)), min_size=3, max_size=9)


@pytest.mark.parametrize("timed", [False, True])
def test_random_feeds(spark, tmp_path_factory, timed):
    """The last row of a key at a time counts, in the order of the DataFrame's rows, whatever else is written before."""

    @examples(8, least=2)
    @given(st.lists(WRITES, min_size=2, max_size=2), st.sampled_from(IN_DRIVER))
    def check(epochs, in_driver):
        columns = "k bigint, v bigint, l array<bigint>, op string" + ", at bigint" * timed
        folder = tmp_path_factory.mktemp("state")
        with keyed().start(tm.Reference()) as right, keyed().start(tm.Spark(spark, folder, in_driver=in_driver)) as run:
            for number, writes in enumerate(epochs):
                lines = [(k, v, [v], op, *[2 * number + t] * timed) for k, v, op, t in writes]
                right.apply("x", lines, time="at" if timed else None)
                run.apply("x", spark.createDataFrame(lines, columns), time="at" if timed else None)
                for r in (right, run):
                    r.upsert("x", [(0, 9, None)], time=2 * number)
                    r.advance_to(2 * number + 2)
                assert list(run.changes("rows")) == list(right.changes("rows"))

    check()


@pytest.mark.parametrize("in_driver", [3, 1000])
def test_a_feed_that_takes_all_rows(spark, tmp_path, in_driver):
    """What is there and what a DataFrame puts at the same time, before it and behind it; and what is there alone."""
    found = []
    for engine in (tm.Reference(), tm.Spark(spark, tmp_path, in_driver=in_driver)):
        with keyed().start(engine) as run:
            rows = [(k, k, [k]) for k in range(20)]
            large = (
                rows if engine == tm.Reference() else spark.createDataFrame(rows, "k bigint, v bigint, l array<bigint>")
            )
            run.upsert("x", large)
            run.advance()
            run.upsert("x", rows[:2])
            run.apply("x", [{"op": "t"}, {"op": "i", "k": 3, "v": 4, "l": None}, {"op": "i", "k": 99, "v": 1, "l": []}])
            run.upsert("x", large, time=2)
            run.apply("x", [{"op": "t"}, {"op": "d", "k": 3}, {"op": "i", "k": 5, "v": 6, "l": None}], time=2)
            run.advance()
            found.append([*run.changes("rows"), *run.snapshot("rows")])
            run.advance()
            found[-1] += [*run.changes("rows"), *run.snapshot("rows")]
            run.upsert("x", large)
            run.advance()
            run.apply("x", [{"op": "t"}])
            run.advance()
            found[-1] += [*run.changes("rows"), *run.snapshot("rows")]
    assert found[0] == found[1]


def test_a_backlog_does_not_come_to_the_driver(spark, tmp_path, monkeypatch):
    """A stream's first batch may be all that there is; it counts once, however often it is delivered."""
    frames = type(spark.range(1))
    fetched, fetch = [], frames.toArrow

    def counted(frame):
        table = fetch(frame)
        fetched.append(len(table))
        return table

    with keyed().start(tm.Spark(spark, tmp_path, in_driver=5)) as run:
        take = run.foreach_batch("x", op="what")
        backlog = spark.sql("SELECT id % 40 k, id v, array(id) l, IF(id % 40 = 7, 'd', 'i') what FROM range(200)")
        with monkeypatch.context() as patch:
            patch.setattr(frames, "toArrow", counted)
            for _ in range(2):
                take(backlog, 0)
        assert max(fetched) <= 6
        assert run.snapshot("rows").counts() == {(k, 160 + k, (160 + k,)): 1 for k in range(40) if k != 7}
        assert run.frontier("rows") == tm.Antichain([1])
        with pytest.raises(RowError, match=r"Input 'x' \(.*\): 'what' is not an operation: expected insert, update or"):
            take(spark.sql("SELECT id k, id v, array(id) l, IF(id = 7, 'What', 'i') what FROM range(20)"), 1)
        assert list(run.changes("rows"))[39:] == []
        assert {p.name for p in (tmp_path / "cold").iterdir()} == run._stepper.spill_store.store.names


WRONG = {
    "time": ("IF(id = 7, -1, id) time, 1 diff", TimeError, "a time is NULL or out of range"),
    "final": ("id % 3 time, 1 diff", TimeError, r"time 0 is not beyond its frontier Antichain\(1\)"),
    "diff": ("1 time, IF(id = 7, NULL, 1) diff", RowError, r"a diff is NULL or beyond 2\*\*31, in 1 of 20 rows"),
    "many": ("id + 1 time, 1 diff", EngineError, "20 rows with more than 7 different times and diffs: put in fewer"),
    "without": ("1 time", RowError, "'diff' is missing: add it"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_refused_leaves_no_trace(spark, tmp_path, monkeypatch, case):
    columns, kind, message = WRONG[case]
    monkeypatch.setattr("tidemill.renderer.spark.live.mixed_changes._MOST_TIMES", 7)
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}))
    with flow.start(tm.Spark(spark, tmp_path, in_driver=5)) as run:
        run.advance()
        with pytest.raises(kind, match=message):
            run.update("x", spark.sql(f"SELECT id i, {columns} FROM range(20)"))
        assert not list((tmp_path / "cold").glob("*"))
        run.advance()
        assert list(run.changes("o")) == []


def test_feeds_that_do_not_fit(spark, tmp_path):
    with keyed().start(tm.Spark(spark, tmp_path, in_driver=5)) as run:
        for columns, kind, message in (
            ("IF(id = 7, NULL, id) k, id v, array(id) l, 'd' op", RowError, "column k: int64 not null is NULL"),
            ("id k, IF(id = 7, NULL, id) v, array(id) l, 'i' op", RowError, "column v: int64 not null is NULL"),
            ("id k, id v, array(id) l", RowError, "'op' is missing: add it"),
        ):
            with pytest.raises(kind, match=message):
                run.apply("x", spark.sql(f"SELECT {columns} FROM range(20)"))
        run.apply(
            "x", spark.sql("SELECT id k, NULL::bigint v, array(id) l, 'd' op FROM range(20)")
        )  # no more is needed
        run.advance()
        assert list(run.snapshot("rows")) == []
