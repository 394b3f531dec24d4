r"""LIKE, NOT LIKE and ILIKE: every short pattern and text over ``\ a b % _``, on engines and in SQLite.

The kind of defect: an engine's own reading of patterns, whose short cuts are wrong for some (Arrow's with ``\\``).
"""

from __future__ import annotations

import itertools
import sqlite3

import pyarrow as pa
import pytest
from support.running import start

import tidemill as tm
from tidemill.expressions.binding import bind
from tidemill.expressions.functions.patterns import like_complaint, matches_like
from tidemill.expressions.schema import Schema
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.reference.expressions import evaluate

SCHEMA = Schema.of({"s": "string"})
LETTERS = "\\ab%_"
TEXTS = ["".join(t) for n in range(5) for t in itertools.product(LETTERS, repeat=n)]
PATTERNS = [p for n in range(5) for p in map("".join, itertools.product(LETTERS, repeat=n)) if not like_complaint(p)]


@pytest.fixture(scope="module")
def sqlite() -> dict[str, list[bool]]:
    """What SQLite says of all texts, by pattern."""
    with sqlite3.connect(":memory:") as base:
        base.execute("pragma case_sensitive_like = on")
        base.execute("create table x (i, s)")
        base.executemany("insert into x values (?, ?)", enumerate(TEXTS))
        ask = r"select s like ? escape '\' from x order by i"
        return {p: [bool(v) for (v,) in base.execute(ask, (p,))] for p in PATTERNS}


@pytest.mark.slow
def test_short_patterns_and_texts(sqlite: dict[str, list[bool]]) -> None:
    assert len(PATTERNS) > 500
    texts = pa.array(TEXTS)
    for pattern, expected in sqlite.items():
        tree = bind(tm.col("s").like(pattern), SCHEMA)
        assert compile_scalar(tree)([texts], len(TEXTS)).to_pylist() == expected, pattern
        assert [matches_like(text, pattern) for text in TEXTS] == expected, pattern


def test_not_and_ilike(sqlite: dict[str, list[bool]]) -> None:
    texts = pa.array([t.upper() for t in TEXTS])
    for pattern, expected in sqlite.items():
        insensitive = tm.ilike(tm.col("s"), pattern)
        for tree, value in ((insensitive, True), (~insensitive, False), (~tm.col("s").like(pattern.upper()), False)):
            found = compile_scalar(bind(tree, SCHEMA))([texts], len(TEXTS)).to_pylist()
            assert found == [e is value for e in expected], pattern


def test_on_both_engines(engine: str) -> None:
    """As users write it: an escaped backslash and what comes after it."""
    flow = tm.Dataflow()
    rows = flow.input("x", {"s": "string"})
    flow.output("like", rows.filter(r"s like '%\\\\doc'"))
    flow.output("not", rows.filter(r"s not like '%\\\\doc'"))
    with start(flow, engine) as run:
        run.insert("x", [(r"C:\doc",), (r"C:doc",), (None,), ("\n\\doc",)])
        run.advance_to(1)
        assert sorted(run.snapshot("like")) == [("\n\\doc",), (r"C:\doc",)]
        assert list(run.snapshot("not")) == [("C:doc",)]


@pytest.mark.parametrize("pattern", ["%a" * 12 + "%b", "%_" * 12 + "b", "%a_" * 9 + "b%a"])
def test_many_wildcards_are_looked_for_but_once(pattern: str) -> None:
    r"""Trying all places for each ``%`` would take longer than anybody waits: some 10^20 of them."""
    assert not matches_like("a" * 300, pattern)
    tree = bind(tm.col("s").like(pattern), SCHEMA)
    assert compile_scalar(tree)([pa.array(["a" * 300])], 1).to_pylist() == [False]
    assert evaluate(tree, ("a" * 300,)) is False
