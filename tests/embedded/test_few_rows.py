"""Few rows are worked out in Python, many by kernels: what comes out is the same, errors too."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidemill as tm
from tidemill.errors import ExpressionError
from tidemill.renderer.embedded.expressions import few_rows
from tidemill.renderer.embedded.operators import linear, table_function

SCHEMA = {"i": "int64", "s": "string", "f": "float64"}
ROWS = [(1, "a", 0.5), (None, None, None), (-3, "ß", float("nan")), (7, "", -0.0)]

WHOLE = st.none() | st.integers(-(2**63) + 1, 2**63 - 1)
MOMENT = st.none() | st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))  # noqa: DTZ001


def operators(run):
    return [*run.executor.compiled.operators.values()]


def selected(rows):
    flow = tm.Dataflow()
    x = flow.input("x", SCHEMA)
    flow.output("x", x.filter("i > 0 OR s IS NULL OR f <> 0.5").select(
        "s", same=tm.coalesce("f", 2.0), more="CASE WHEN i > 0 THEN i + 1 ELSE -i END", hashed=tm.xxhash64("i", "s", "f"),
    ))  # fmt: skip
    with flow.start() as run:
        run.insert("x", rows)
        run.advance()
        return list(run.changes("x"))


@pytest.mark.parametrize("count", range(1, 5))
def test_few_rows_come_to_the_same_in_python_and_by_kernels(count, monkeypatch):
    in_python = selected(ROWS[:count])
    for module in (few_rows, linear):
        monkeypatch.setattr(module, "FEW_ROWS", 0)
    assert repr(selected(ROWS[:count])) == repr(in_python)


@given(st.lists(st.tuples(WHOLE, MOMENT, WHOLE, MOMENT), min_size=1, max_size=4))
def test_hashes_of_codes_are_those_of_values(rows):
    flow = tm.Dataflow()
    x = flow.input("x", {"i": "int64", "t": "timestamp", "j": "int64", "u": "timestamp"})
    flow.output("x", x.select("i", "t", "j", "u", found=tm.xxhash64("i", "t", "j", "u")))
    with flow.start() as run, flow.start(tm.Reference()) as reference:
        for each in (run, reference):
            each.insert("x", rows)
            each.advance()
        assert run.snapshot("x").counts() == reference.snapshot("x").counts()


def test_kernels_are_not_called_for_a_few_rows(monkeypatch):
    def refused(*_):
        pytest.fail("a kernel was called")

    flow = tm.Dataflow()
    flow.output("x", flow.input("x", SCHEMA).filter("i > 0").select(more="i + 1"))
    with flow.start() as run:
        for operator in operators(run):
            if hasattr(operator, "_predicate"):
                monkeypatch.setattr(operator, "_predicate", refused)
        run.insert("x", ROWS)
        run.advance()
        assert list(run.snapshot("x")) == [(2,), (8,)]


@pytest.mark.parametrize("text", ["i + 9223372036854775807 > 0", "i * 9223372036854775807 > 0"])
@pytest.mark.parametrize("count", [2, 40])
def test_an_error_says_which_row_it_is_of_however_many_there_are(text, count):
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"i": "int64"}).filter(text))
    with flow.start() as run:
        run.insert("x", [(0,)] * (count - 1) + [(5,)])
        with pytest.raises(ExpressionError, match=r"row \(5,\): overflow"):
            run.advance()


def test_where_a_table_function_has_no_meaning_for_a_row_that_never_was_columns_do(monkeypatch):
    """A row of a join of different times, which cancels, may have none."""

    def rows(*_):
        msg = "no such row"
        raise ValueError(msg)

    flow = tm.Dataflow()
    x = flow.input("x", {"i": "int64"})
    flow.output("x", tm.algorithms.order_index(x, order_by="i"))
    with flow.start() as run:
        (operator,) = (o for o in operators(run) if isinstance(o, table_function.TableFunctionOperator))
        monkeypatch.setattr(type(operator._call.function), "rows", rows)
        run.insert("x", [(1,)])
        run.advance()
        assert len(run.snapshot("x")) == 1
