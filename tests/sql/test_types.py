"""Types of SQL that are kept as larger ones: what does not fit them is an error, or NULL where it is tried."""

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
        ("cast(a as char(3))", "postgres", "type CHAR\\(3\\) is not supported"),
        ("cast(a as numeric)", "postgres", "DECIMAL without its digits"),
        ("cast(a as uuid)", "spark", "type UUID is not supported"),
        ("cast(a as interval)", "postgres", "type INTERVAL is not supported"),
        ("cast(null as array<smallint>)", "spark", "SMALLINT in an array or a struct is not supported"),
    ],
)
def test_types_that_are_not_there_are_refused(text, dialect, reason):
    flow = tm.Dataflow()
    flow.input("t", {"a": "int64"})
    with pytest.raises(SqlError, match=reason):
        flow.sql(f"select {text} as x from t", dialect)
