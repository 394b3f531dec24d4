"""Types of SQL that are kept as larger ones: what does not fit them is an error, or NULL where it is tried."""

import datetime as dt
import decimal

import pytest

import tidemill as tm
from tidemill.errors import SqlError, StepError

SCRIPT = """
create table t (a smallint, b tinyint, c real, d varchar(3), e char(3), f numeric(5, 2), g timestamp_ntz);
create materialized view o as select * from t;
"""


def run_of(text, dialect="spark"):
    flow = tm.Dataflow.from_sql(text, dialect)
    return flow.start()


def test_columns_of_tables():
    run = run_of(SCRIPT)
    row = (7, 127, 0.1, "ab ", "x", decimal.Decimal("1.5"), None)
    run.insert("t", [row])
    run.advance()
    assert [tuple(map(str, r)) for r in run.snapshot("o")] == [
        ("7", "127", "0.10000000149011612", "ab ", "x  ", "1.50", "None")
    ]
    run.delete("t", [row])
    run.advance()
    assert list(run.snapshot("o")) == []


@pytest.mark.parametrize(
    "row, reason",
    [
        ((32768, 1, 1.0, "a", "a", 1, None), r"32768 does not fit smallint"),
        ((1, -129, 1.0, "a", "a", 1, None), r"-129 does not fit tinyint"),
        ((1, 1, 1.0, "abcd", "a", 1, None), r"'abcd' does not fit varchar\(3\)"),
        ((1, 1, 1.0, "a", "abc d", 1, None), r"'abc d' does not fit char\(3\)"),
    ],
)
def test_what_does_not_fit_a_column_fails_the_step_and_may_be_retracted(row, reason):
    run = run_of(SCRIPT)
    run.insert("t", [row])
    with pytest.raises(StepError, match=reason):
        run.advance()


def test_blanks_at_the_end_do_not_count():
    run = run_of(SCRIPT)
    run.insert("t", [(None, None, None, "abc  ", "abc ", None, None)])
    run.advance()
    ((*_, d, e, _, _),) = run.snapshot("o")
    assert (d, e) == ("abc", "abc")


CASTS = [
    ("cast(a as smallint)", 5), ("try_cast(a * 10000 as smallint)", None), ("try_cast(s as tinyint)", 12),
    ("cast(a as real) / 3e0", 5 / 3), ("cast(0.1e0 as float)", 0.10000000149011612), ("cast(1e300 as real)", float("inf")),
    ("cast(s as varchar(1))", "12"), ("cast(a as numeric(3, 0))", 5), ("try_cast('x' as real)", None),
]  # fmt: skip


@pytest.mark.parametrize("text, expected", CASTS)
def test_casts(text, expected):
    flow = tm.Dataflow()
    t = flow.input("t", {"a": "int64", "s": "string"})
    flow.output("sql", flow.sql(f"select {text} as x from t"))
    flow.output("python", t.select(x=tm.expr(text)))
    run = flow.start()
    run.insert("t", [(5, "12")])
    run.advance()
    assert list(run.snapshot("sql")) == list(run.snapshot("python")) == [(expected,)]


def test_what_does_not_fit_a_column_fails_the_step_in_later_queries_too():
    """A text that came after that of CREATE TABLE read the column unchecked: 70000 was a SMALLINT, "a" a CHAR(3)."""
    flow = tm.Dataflow()
    flow.sql("create table t (a smallint, c char(3))")
    flow.output("o", flow.sql("select a, c || '.' as c from t"))
    with flow.start() as run:
        run.insert("t", [(1, "a")])
        run.advance()
        assert list(run.snapshot("o")) == [(1, "a  .")]
        run.insert("t", [(70000, "a")])
        with pytest.raises(StepError, match="70000 does not fit smallint"):
            run.advance()


def test_a_cast_that_does_not_fit_fails_the_step():
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64"})
    flow.output("o", flow.sql("select cast(a as smallint) as x from t"))
    run = flow.start()
    run.insert("t", [(70000,)])
    with pytest.raises(StepError, match="70000 does not fit smallint"):
        run.advance()


@pytest.mark.parametrize(
    "text, dialect, expected",
    [
        ("cast(s as varchar(1))", "postgres", "1"), ("cast(s as varchar(1))", "duckdb", "12"),
        ("cast(s as char(1))", "duckdb", "12"), ("cast(a as float)", "postgres", 5.0),
        ("cast(a as numeric)", "duckdb", 5),
    ],
)  # fmt: skip
def test_by_dialect(text, dialect, expected):
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64", "s": "string"})
    flow.output("o", flow.sql(f"select {text} as x from t", dialect))
    run = flow.start()
    run.insert("t", [(5, "12")])
    run.advance()
    assert list(run.snapshot("o")) == [(expected,)]


@pytest.mark.parametrize(
    "text, dialect, reason",
    [
        ("cast(a as bpchar)", "materialize", "type BPCHAR is not supported: its blanks at the end .* write VARCHAR"),
        ("cast(a as char(3))", "risingwave", "type CHAR\\(3\\) is not supported: RisingWave has not got it"),
        ("cast(a as numeric)", "postgres", "DECIMAL without its digits: write .* as in NUMERIC\\(38, 9\\)"),
        ("cast(a as uuid)", "spark", "there is no cast from int64 to uuid"),
        ("cast(a as interval)", "postgres", "there is no cast from int64 to interval"),
        ("cast(null as interval year to month)", "spark", "intervals of months are no columns"),
        ("interval '1' month", "spark", "is no value of a column"),
        ("cast(time '10:00' as text)", "postgres", "not supported"),
        ("extract(hour from interval '25' hour)", "duckdb", "hours of an interval"),
        ("time '10:00' + interval '1' hour", "postgres", "expects"),
        ("cast(null as array<smallint>)", "spark", "SMALLINT in an array or a struct is not supported"),
    ],
)
def test_types_that_are_not_there_are_refused(text, dialect, reason):
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64"})
    with pytest.raises(SqlError, match=reason):
        flow.sql(f"select {text} as x from t", dialect)


TIMES = """
create table t (z {zoned}, t time, i interval, u uuid, a timestamp, b timestamp, primary key (u));
create materialized view o as select z, t, i, u, a - b as apart, b - a as other, z + i as later, i > interval '1' day as long
from t where t >= time '09:30' and u <> '{other}';
"""
ONE, TWO = "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c9"


@pytest.mark.parametrize("dialect", ["spark", "postgres", "duckdb", "materialize", "risingwave"])
def test_times_intervals_and_uuids(dialect):
    zoned = "timestamp_ltz" if dialect == "spark" else "timestamptz"
    flow = tm.Dataflow.from_sql(TIMES.format(zoned=zoned, other=TWO.upper()), dialect)
    assert [str(f.dtype) for f in flow.graph.inputs["t"].schema] == [
        "timestamptz", "time", "interval", "uuid", "timestamp", "timestamp",
    ]  # fmt: skip
    zone = dt.timezone(dt.timedelta(hours=-5))
    row = (dt.datetime(2024, 1, 1, tzinfo=zone), dt.time(9, 30), dt.timedelta(hours=25), ONE, dt.datetime(2024, 1, 2),
           dt.datetime(2024, 1, 1, 12))  # fmt: skip
    with flow.start() as run:
        run.insert(
            "t", [row, (*row[:3], TWO, None, None), (row[0], dt.time(9, 29), *row[2:3], ONE[:-1] + "0", None, None)]
        )
        run.advance()
        half = dt.timedelta(hours=12)
        later = dt.datetime(2024, 1, 2, 6, tzinfo=dt.UTC)
        assert list(run.snapshot("o")) == [(*row[:4], half, -half, later, True)]
        run.delete("t", [(ONE,)])
        run.advance()
        assert list(run.snapshot("o")) == []


@pytest.mark.parametrize(
    "text, expected",
    [
        ("cast('10:00:01.50' as time)", dt.time(10, 0, 1, 500000)), ("cast(a - b as string)", "INTERVAL '0 12:00:00' DAY TO SECOND"),
        ("interval '1' day - interval '1' hour", dt.timedelta(hours=23)), ("cast(cast(a as time) as string)", "00:00:00"),
        ("cast('1 02:03:04' as interval day to second)", dt.timedelta(1, 7384)), ("extract(hour from a - b)", 12),
        ("max(a - b)", dt.timedelta(hours=12)), ("date '2024-01-03' - date '2024-01-01'", dt.timedelta(2)),
        ("try_cast('x' as uuid)", None), ("coalesce(null, interval '2' hour)", dt.timedelta(hours=2)),
    ],
)  # fmt: skip
def test_what_is_computed_of_times(text, expected):
    flow = tm.Dataflow()
    t = flow.constant({"a": "timestamp", "b": "timestamp"}, [(dt.datetime(2024, 1, 2), dt.datetime(2024, 1, 1, 12))])
    flow.output("o", flow.sql(f"select {text} as x from t", tables={"t": t}))
    assert list(flow.start().snapshot("o")) == [(expected,)]


@pytest.mark.parametrize("dialect", ["spark", "duckdb", "postgres"])
def test_a_text_behind_its_type_is_of_that_before_it_is_cast(dialect):
    """The kind of defect: sqlglot casts the text first, so that ``DATE '2020-01-01'::text`` was a date."""
    text = "string" if dialect == "spark" else "text"
    chosen = {
        f"date '2020-01-01'::{text}": "2020-01-01",
        "timestamp '2020-01-02 10:00:00'::date": dt.date(2020, 1, 2),
        f"date '2020-01-01'::{text}::date": dt.date(2020, 1, 1),
        f"cast('2020-01-01'::{text} as date)": dt.date(2020, 1, 1),
        f"cast(date '2020-01-01'::{text} as date)": dt.date(2020, 1, 1),
        f"'2020-01-01'::{text}::date": dt.date(2020, 1, 1),
    }
    flow = tm.Dataflow()
    flow.output("o", flow.sql("select " + ", ".join(f"{e} as c{i}" for i, e in enumerate(chosen)), dialect=dialect))
    with flow.start() as run:
        run.advance()
        assert list(run.snapshot("o")) == [tuple(chosen.values())]
