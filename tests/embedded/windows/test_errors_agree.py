"""What window calls refuse is told in the words of the reference engine, however they are rendered."""

import re

import pytest
from support.renderings import FEW_ARE_MANY, SMALL_IS_LARGE, thresholds

import tidemill as tm
import tidemill.algorithms.lowering.window_sums.orders  # noqa: F401 - else first imported, and for good, with few copies
from tidemill.errors import TidemillError
from tidemill.expressions.windows import bound
from tidemill.renderer.embedded.operators import threshold
from tidemill.renderer.embedded.reduce import ordered_windows
from tidemill.renderer.embedded.windows import ordering
from tidemill.renderer.reference import windows as by_definition

ROW = {"k": "int64", "t": "int64", "x": "int64"}
W = tm.Window.partition_by("k").order_by("t")
ROWS = [((1, t, 3), 0, 1) for t in range(12)]
MOST, COPIES = 2**63 - 1, 2
CALLS = {
    "a sum": lambda how: tm.sum("x").over(W.rows_between(-2, 1), strategy=how),
    "a sum so far": lambda how: tm.sum("x").over(W, strategy=how),
    "a sum in an expression": lambda how: tm.sum("x").over(W, strategy=how) + 1,
    "distinct values": lambda how: tm.sum("x").over(W.rows_between(tm.UNBOUNDED, 0), distinct=True, strategy=how),
    "a rank": lambda how: tm.rank().over(W, strategy=how),
    "a number": lambda how: tm.nth_value("t", "x").over(W.rows_between(-2, 0), strategy=how),
    "of all rows": lambda how: tm.sum("x").over(tm.Window.order_by("t"), strategy=how),
    "by an expression": lambda how: tm.lag("x").over(tm.Window.partition_by("k DIV x").order_by("t"), strategy=how),
    "of an expression": lambda how: tm.max("t DIV x").over(W, strategy=how),
}
UPDATES = {
    "a negative count": [((1, 14, 7), 1, -1)],
    "a count that neighbours make up for": [((1, 14, 7), 1, -1), ((1, 14, 8), 1, 2)],
    "a negative count of another partition": [((2, 14, 7), 1, -1)],
    "no number of at least 1": [((1, 14, 0), 1, 1)],
    "an overflow": [((1, 14, MOST), 1, 1), ((1, 14, MOST - 1), 1, 1)],
    "too many copies": [((1, 14, 7), 1, COPIES + 1)],
}
RENDERINGS = {
    "whole": ("auto", ()),
    "in order": ("auto", (SMALL_IS_LARGE,)),
    "many in order": ("auto", (SMALL_IS_LARGE, FEW_ARE_MANY)),
    "recomputed": ("recompute", ()),
    "sums over the order": ("prefix_sum", ()),
}


@pytest.fixture(autouse=True)
def few_copies(monkeypatch):
    for module in (bound, ordering, ordered_windows, threshold, by_definition):
        monkeypatch.setattr(module, "MOST_COPIES", COPIES)


def refused(build, updates, engine=None, **options):
    """Return what is told of updates that are refused, and its data; None where they are not."""
    flow = tm.Dataflow()
    flow.output("y", build(flow.input("x", ROW, watermark=("t", 2))))
    with flow.start(engine, **options) as run:
        run.update("x", ROWS)
        run.advance()
        run.update("x", updates)
        run.watermark("x", 100, time=2)
        try:
            run.advance_to(3)
        except TidemillError as error:
            return type(error), str(error), error.operator, error.row, error.column
    return None


def without_row(told):
    """Which of the rows of an overflow is named is the engine's choice."""
    if told is None or "overflow" not in told[1]:
        return told
    kind, text, operator, _, column = told
    return kind, re.sub(r", row \(.*?\)", "", text), operator, column


@pytest.mark.parametrize("rendering", RENDERINGS)
@pytest.mark.parametrize("updates", UPDATES)
@pytest.mark.parametrize("call", CALLS)
def test_window_calls(call, updates, rendering):
    how, limits = RENDERINGS[rendering]

    def build(x):
        return x.with_columns(n=CALLS[call](how))

    expected = refused(build, UPDATES[updates], tm.Reference())
    with thresholds(*limits):
        found = refused(build, UPDATES[updates])
    assert without_row(found) == without_row(expected)
    assert expected is None or expected[2] == "Windowed 'windowed'"


@pytest.mark.parametrize("updates", UPDATES)
@pytest.mark.parametrize("call", CALLS)
def test_window_calls_on_close(call, updates):
    def build(x):
        return x.with_columns(n=CALLS[call]("auto"), emit="on_close")

    expected = refused(build, UPDATES[updates], tm.Reference())
    # without passes, which leave out calls that nobody reads, and their errors
    assert without_row(refused(build, UPDATES[updates], passes=False)) == without_row(expected)


@pytest.mark.parametrize("updates", UPDATES)
@pytest.mark.parametrize("call", CALLS)
def test_window_calls_in_loops(call, updates):
    def build(x):
        return x.iterate(lambda c: c.with_columns(n=CALLS[call]("auto")).drop("n").concat(x), return_at=1)

    expected = refused(build, UPDATES[updates], tm.Reference())
    # without passes, which leave out calls that nobody reads, and their errors
    assert without_row(refused(build, UPDATES[updates], passes=False)) == without_row(expected)


def by_rank(x):
    return x.with_columns(n=tm.rank().over(W)).filter("n < 99")


NEGATIVE = [name for name in UPDATES if "count" in name]
OTHERS = {
    "a sum of whole partitions": (lambda x: x.with_columns(n=tm.sum("x").over(tm.Window.partition_by("k"))), []),
    "first ranks": (by_rank, NEGATIVE),
    "sessions": (lambda x: x.with_columns(n=tm.session("t", 3).over(W)), NEGATIVE),
    "sessions on close": (lambda x: x.with_columns(n=tm.session("t", 3).over(W), emit="on_close"), NEGATIVE),
    "top_k": (lambda x: x.group_by("k").top_k(99, order_by="t"), NEGATIVE),
    "an aggregate": (lambda x: x.group_by("k").agg(n=tm.sum("x"), most=tm.max("x")), [*NEGATIVE, "an overflow"]),
    "an aggregate of an expression": (lambda x: x.group_by("k").agg(n=tm.sum("10 DIV x")), ["no number of at least 1"]),
}


@pytest.mark.parametrize(("other", "updates"), [(o, u) for o, (_, some) in OTHERS.items() for u in some])
def test_what_else_is_made_of_other_operators(other, updates):
    build = OTHERS[other][0]
    expected = refused(build, UPDATES[updates], tm.Reference())
    assert expected is not None
    assert refused(build, UPDATES[updates]) == expected


def test_an_overflow_of_a_whole_partition_is_the_windows():
    found = refused(OTHERS["a sum of whole partitions"][0], UPDATES["an overflow"])
    assert found is not None
    assert found[2] == "Windowed 'windowed'"
    assert "overflow in `sum AS n`" in found[1]
