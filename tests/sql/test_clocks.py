"""The present time in WHERE: temporal filters, by a clock that is a table or by the dataflow's own times."""

import datetime as dt
from typing import Any

import pytest

import tidemill as tm
from tidemill.errors import SqlError

NOON = dt.datetime(2024, 1, 1, 12)
MINUTE = dt.timedelta(minutes=1)
TICK = dt.timedelta(microseconds=1)
TABLES = """
    create table t (a bigint, ts timestamp, te timestamp, d date);
    create table now (t timestamp not null);
    create materialized view v as select a from t where
"""
ROWS = [
    (1, NOON, NOON + 5 * MINUTE, dt.date(2024, 1, 1)), (2, NOON + 2 * MINUTE, NOON + 3 * MINUTE, dt.date(2024, 1, 2)),
    (3, None, NOON + 4 * MINUTE, None), (4, NOON + 9 * MINUTE, NOON, dt.date(2023, 12, 31)),
]  # fmt: skip
MOMENTS = [
    NOON - MINUTE, NOON, NOON + TICK, NOON + 2 * MINUTE, NOON + 3 * MINUTE, NOON + 5 * MINUTE, NOON + dt.timedelta(1),
]  # fmt: skip


@pytest.mark.parametrize(
    "text, condition",
    [
        ("ts <= now()", lambda r, n: r[1] is not None and r[1] <= n),
        ("now() < te", lambda r, n: n < r[2]),
        ("now() <= te", lambda r, n: n <= r[2]),
        ("ts < now()", lambda r, n: r[1] is not None and r[1] < n),
        ("current_timestamp = ts", lambda r, n: r[1] == n),
        ("now() between ts and te", lambda r, n: r[1] is not None and r[1] <= n <= r[2]),
        ("ts > now() - interval 3 minutes", lambda r, n: r[1] is not None and r[1] > n - 3 * MINUTE),
        ("a < 3 and (now() + interval 1 minute >= ts) and te > now()",
         lambda r, n: r[0] < 3 and r[1] is not None and n + MINUTE >= r[1] and r[2] > n),
        ("d = current_date", lambda r, n: r[3] == n.date()),
        ("d >= current_date and now() < te", lambda r, n: r[3] is not None and r[3] >= n.date() and n < r[2]),
    ],
)  # fmt: skip
def test_rows_are_there_while_a_condition_on_the_clock_is_true(text, condition):
    flow = tm.Dataflow.from_sql(TABLES + text)
    found = []
    with flow.start() as run:
        run.insert("t", ROWS)
        for number, moment in enumerate(MOMENTS):
            run.insert("now", [(moment,)])
            run.delete("now", [(m,) for m in MOMENTS[:number][-1:]])
            run.advance()
            found.append(sorted(a for (a,) in run.snapshot("v")))
    assert found == [sorted(row[0] for row in ROWS if condition(row, now)) for now in MOMENTS]


def test_it_is_the_temporal_filter_of_python():
    flow = tm.Dataflow()
    rows = flow.input("t", {"a": "int64", "ts": "timestamp not null", "te": "timestamp not null"})
    clock = flow.input("clock", {"t": "timestamp not null"})
    in_sql = flow.sql("select a from t where now() >= ts and now() < te", tables={"t": rows, "now": clock})
    in_python = rows.filter("ts < te").temporal_filter("ts", "te", clock=clock).select("a")
    flow.output("sql", in_sql)
    flow.output("differ", in_sql.concat(in_python.negate()))
    updates: dict[str, list[Any]] = {
        "t": [((r[0], r[1] or NOON, r[2]), 0, 1) for r in ROWS],
        "clock": [((NOON,), 0, 1)],
    }
    updates["clock"] += [((NOON,), 1, -1), ((NOON + 2 * MINUTE,), 1, 1)]
    tm.testing.check_equivalent(flow, updates, engines=["reference", "embedded"])
    with flow.start() as run:
        run.insert("t", [row for row, _, _ in updates["t"]])
        run.insert("clock", [(NOON,)])
        run.advance()
        assert sorted(run.snapshot("sql")) == [(1,), (3,)]
        assert len(run.snapshot("differ")) == 0


def test_the_times_of_the_dataflow_itself():
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64", "since": "int64", "until": "int64"})
    flow.output("v", flow.sql("select a from t where mz_now() between since and until", "materialize"))
    with flow.start() as run:
        run.insert("t", [(1, 0, 1), (2, 1, 1), (3, 2, 9), (4, 5, 4), (5, None, 2)])
        found = []
        for _ in range(4):
            run.advance()
            found.append(sorted(a for (a,) in run.snapshot("v")))
    assert found == [[1], [1, 2], [3], [3]]


@pytest.mark.parametrize(
    "text, reason",
    [
        ("select now() as n from t", "no function of the row"),
        ("select a from t where now() > ts or a = 1", "no function of the row"),
        ("select a from t where not now() > ts", "no function of the row"),
        ("select a from t where now() > a", "the present time, of timestamp, is compared with int64"),
        ("select a from t where mz_now() > ts", "the present time, of int64, is compared with timestamp"),
        ("select a from t where now() > current_date", "compared with itself"),
        ("select a from t where now() > ts", "the only row of a table `now` of one column: there is none"),
    ],
)
def test_refused(text, reason):
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64", "ts": "timestamp"})
    with pytest.raises(SqlError, match=reason) as caught:
        flow.sql(text)
    assert caught.value.line == 1
