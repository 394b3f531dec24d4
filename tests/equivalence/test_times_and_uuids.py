"""Moments with a zone, times of day, intervals and UUIDs: as columns of all operators, and what is computed of them."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples
from support.typed_flows import TIME_ROWS, TIMES, UTC, A, of_times

import tidemill as tm
from tidemill.errors import ExpressionError, SchemaError, StepError
from tidemill.expressions.binding import bind
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import expr, to_sql


@examples(40)
@given(st.data(), st.integers(1, 2))
def test_on_both_engines(data, coordinates):
    updates = data.draw(tm.testing.updates(TIMES, coordinates, non_negative=True))
    tm.testing.check_equivalent(of_times(coordinates), {"x": updates}, engines=["reference", "embedded"])


@pytest.mark.parametrize("in_memory", [None, 0])
def test_state_in_a_folder(tmp_path, in_memory):
    with of_times().start() as plain:
        plain.insert("x", TIME_ROWS * 2)
        plain.advance()
        plain.delete("x", TIME_ROWS[:1])
        plain.advance()
        expected = {name: repr(list(plain.snapshot(name))) for name in of_times().graph.outputs}
    for _ in range(2):
        with of_times().start(tm.Embedded(tmp_path, in_memory=in_memory)) as run:
            run.insert("x", TIME_ROWS)
            run.advance()
            if in_memory == 0:
                run.spill()
    with of_times().start(tm.Embedded(tmp_path, in_memory=in_memory)) as run:
        run.delete("x", TIME_ROWS[:1])
        run.advance()
        assert {name: repr(list(run.snapshot(name))) for name in expected} == expected


KNOWN = [
    ("CAST(i AS STRING)", ["INTERVAL '1 01:00:00.000005' DAY TO SECOND", "INTERVAL '-1 01:00:00' DAY TO SECOND"]),
    ("CAST(t AS STRING)", ["10:00:00", "23:59:59.5"]),
    ("CAST(z AS STRING)", ["2023-12-31 23:00:00", "2024-03-10 02:30:00"]),
    ("z + INTERVAL '1' HOUR", [dt.datetime(2024, 1, 1, tzinfo=UTC), dt.datetime(2024, 3, 10, 3, 30, tzinfo=UTC)]),
    ("ts - d", [dt.timedelta(), dt.timedelta(69, 9000)]),
    ("EXTRACT(DAY FROM i)", [1, -1]), ("HOUR(i)", [1, -1]), ("HOUR(z)", [23, 2]),
    ("CAST('1 02:03:04.5' AS INTERVAL DAY TO SECOND)", [dt.timedelta(1, 7384, 500000)] * 2),
    ("CAST('2024-01-01 00:00:00+02:00' AS TIMESTAMP_LTZ)", [dt.datetime(2023, 12, 31, 22, tzinfo=UTC)] * 2),
    ("TRY_CAST('25:00' AS TIME)", [None, None]), ("TRY_CAST('x' AS UUID)", [None, None]),
    ("TRY_CAST('1 25:00:00' AS INTERVAL DAY TO SECOND)", [dt.timedelta(2, 3600)] * 2),
]  # fmt: skip


@pytest.mark.parametrize(("text", "values"), KNOWN)
def test_known_values(text, values):
    flow = tm.Dataflow()
    x = flow.constant({**TIMES, "n": "int64"}, [(*row, n) for n, row in enumerate(TIME_ROWS[:2])])
    flow.output("x", x.select("n", y=text))
    assert [y for _, y in flow.start().snapshot("x")] == values


@pytest.mark.parametrize("text", [text for text, _ in KNOWN] + [
    "i + INTERVAL '1' DAY", "z = '2024-01-01 00:00:00+01:00'", "t > TIME '10:00:00.5'", "u IN ('" + A + "')",
    "COALESCE(i, INTERVAL '1 2' DAY TO HOUR)", "DATE_TRUNC('month', z) - z", "CAST(NULL AS INTERVAL)",
])  # fmt: skip
def test_text_and_back(text):
    schema = Schema.of(TIMES)
    bound = bind(expr(text), schema)
    assert bind(expr(to_sql(bound)), schema) == bound


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INTERVAL '1' MONTH", "is no value of a column"), ("CAST(t AS INT)", "no cast"), ("CAST(i AS BIGINT)", "no cast"),
        ("CAST(u AS BINARY)", "no cast"), ("t + i", "expects"), ("z = ts", "values of one type"), ("z - t", "expects"),
        ("i = INTERVAL '1' MONTH", "values of one type"), ("CAST(x AS INTERVAL YEAR TO MONTH)", "are literals alone"),
        ("u = 'x'", "values of one type"), ("i * i", "expects two numbers"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(text, message):
    flow = tm.Dataflow()
    with pytest.raises(SchemaError, match=message):
        flow.input("x", {**TIMES, "x": "string"}).select(y=text)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("i + i", {"i": dt.timedelta(microseconds=2**62)}),
        ("ts + i", {"ts": dt.datetime.max, "i": dt.timedelta(1)}),
        ("i - INTERVAL '1' DAY", {"i": -dt.timedelta(microseconds=2**63 - 1)}),
    ],
)
def test_overflows(text, row, engine):
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"ts": "timestamp", "i": "interval"}).select(y=text))
    with flow.start(tm.Reference() if engine == "reference" else None) as run:
        run.insert("x", [{"ts": None, "i": None, **row}])
        with pytest.raises((ExpressionError, StepError), match="overflow"):
            run.advance()


def test_literals_of_python():
    flow = tm.Dataflow()
    x = flow.constant(TIMES, TIME_ROWS)
    import uuid

    flow.output("x", x.filter(
        (tm.col("z") == TIME_ROWS[0][0]) & (tm.col("t") == dt.time(10)) & (tm.col("u") == uuid.UUID(A))
        & (tm.col("i") == TIME_ROWS[0][2]) & (tm.col("i") > dt.timedelta(1))
    ))  # fmt: skip
    assert len(flow.start().snapshot("x")) == 1
