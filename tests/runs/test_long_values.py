"""Values in messages are cut, the row is whole on the error.

The kind of defect: a message as long as the data, wherever a message shows a row, a key, a value, or an expression.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from support.running import new_flow, start

import tidemill as tm
from tidemill.errors import ExpressionError, RowError, StepError, TidemillError, UserFunctionError, brief

TEXT = "7" * 1_000_000
SHORT = 4_500
SCHEMA = {"k": "int64", "s": "string"}
ROW = (1, TEXT)


def of(build: Callable[[tm.Collection], tm.Collection], **options: Any) -> Any:
    flow = new_flow()
    flow.output("out", build(flow.input("a", SCHEMA, **options)))
    return flow


def raised(*_row: Any) -> Any:
    raise ValueError(TEXT)


def divided(collection: tm.Collection) -> tm.Collection:
    return collection.with_columns(x=f"k / (length(s) - {len(TEXT)})")


def in_loop(collection: tm.Collection) -> tm.Collection:
    return collection.iterate(lambda x: x.with_columns(k="k + 1"), error_at=3)


STEPS: dict[str, tuple[Any, list[tuple[Any, Any, int]]]] = {
    "an expression": (of(divided), [(ROW, 0, 1)]),
    "a cast": (of(lambda c: c.with_columns(i="cast(s as bigint)")), [(ROW, 0, 1)]),
    "a pattern": (of(lambda c: c.filter("regexp_like(s, '(?=(7|7)+8?$)[89]')")), [((1, "7" * 9_999 + "89!"), 0, 1)]),
    "a group": (of(lambda c: c.group_by("k").top_k(1, order_by="s")), [(ROW, 0, -1)]),
    "a window": (
        of(lambda c: c.with_columns(n=tm.row_number().over(tm.Window.partition_by("s").order_by("k")))),
        [(ROW, 0, -1)],
    ),
    "a unique input": (of(lambda c: c, unique=True), [(ROW, 0, 2)]),
    "a loop": (of(in_loop), [(ROW, 0, 1)]),
    "a user's function": (of(lambda c: c.map_rows(raised, SCHEMA)), [(ROW, 0, 1)]),
    "what it returns": (of(lambda c: c.map_rows(lambda r: r.s, SCHEMA)), [(ROW, 0, 1)]),
    "a row it returns": (of(lambda c: c.flat_map(lambda r: [(r.s, r.s)], SCHEMA)), [(ROW, 0, 1)]),
    "a reduce": (of(lambda c: c.group_by("s").reduce(lambda k, _: [(*k, *k)], {"n": "int64"})), [(ROW, 0, 1)]),
    "a threshold": (of(lambda c: c.threshold(raised)), [(ROW, 0, 1)]),
    "an update that is looked at": (of(lambda c: c.inspect(raised)), [(ROW, 0, 1)]),
    "an overflow": (of(lambda c: c.group_by("s").agg(n=tm.sum("k"))), [((2**62, TEXT), 0, 2)]),
}


@pytest.mark.parametrize("case", STEPS)
def test_a_step(case: str, engine: str, caplog: pytest.LogCaptureFixture) -> None:
    flow, updates = STEPS[case]
    with caplog.at_level(logging.DEBUG, "tidemill"), start(flow, engine) as run:
        run.update("a", updates)
        with pytest.raises(StepError) as caught:
            run.advance_to(1)
    error = caught.value
    assert all(len(text) < SHORT for text in (str(error), repr(error), *(r.getMessage() for r in caplog.records)))
    shown = case != "a user's function" or "characters)" in str(error)
    assert shown
    whole = {value for value in (error.row if isinstance(error.row, tuple) else ()) if isinstance(value, str)}
    assert whole == {updates[0][0][1]}


ROWS: dict[str, Any] = {
    "a value of a wrong type": lambda run: run.insert("a", [(TEXT, "a")]),
    "too few values": lambda run: run.insert("a", [(TEXT,)]),
    "no row": lambda run: run.insert("a", [TEXT]),
    "no rows": lambda run: run.insert("a", TEXT),
    "no update": lambda run: run.update("a", [(ROW, TEXT, 1)]),
    "no triple": lambda run: run.update("a", [(ROW, 1)]),
    "a list's value": lambda run: run.insert("l", [([TEXT],)]),
    "many columns": lambda run: run.insert("l", [tuple([TEXT] * 500)]),
    "no operation": lambda run: run.apply("a", [(1, "a", TEXT)], op="op", time=None),
}


@pytest.mark.parametrize("case", ROWS)
def test_rows(case: str) -> None:
    flow = of(lambda c: c)
    flow.output("l", flow.input("l", {"l": "list<int64>"}))
    with start(flow, "embedded") as run, pytest.raises((TidemillError, TypeError, ValueError)) as caught:
        ROWS[case](run)
    assert len(str(caught.value)) < SHORT


def test_expressions() -> None:
    with pytest.raises(TidemillError) as caught:
        of(lambda c: c.filter(tm.col("s") + tm.lit(TEXT)))
    assert len(str(caught.value)) < SHORT
    with pytest.raises(TidemillError) as caught:
        of(lambda c: c.filter(f"s + '{TEXT}"))
    assert len(str(caught.value)) < SHORT


@pytest.mark.parametrize("kind", [StepError, RowError, UserFunctionError])
def test_what_is_said_is_never_long(kind: type[TidemillError]) -> None:
    """The middle goes: it is the end that says what to do."""
    error = kind(f"row {TEXT}: leave it out")
    assert len(str(error)) < SHORT
    assert str(error).startswith("row 777")
    assert str(error).endswith("777: leave it out")
    assert len(str(ExpressionError(TEXT, TEXT))) < 2 * SHORT


@pytest.mark.parametrize(("value", "text"), [
    (("a", None, 1.5), "('a', None, 1.5)"), ((1,), "(1,)"), ([], "[]"), ("a" * 200, repr("a" * 200)),
    (b"a" * 201, repr(b"a" * 200) + "... (201 bytes)"), (10**5_000, "a whole number of 16,610 bits"),
    ((["a" * 201],), "(['" + "a" * 200 + "'... (201 characters)],)"),
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_how_values_are_shown(value: Any, text: str) -> None:
    assert brief(value) == text


def test_nothing_shown_is_long() -> None:
    for value in ([[[TEXT] * 50] * 50] * 50, (TEXT,) * 10_000, {TEXT: TEXT}, [10**100] * 1_000_000):
        assert len(brief(value)) < 2_000
