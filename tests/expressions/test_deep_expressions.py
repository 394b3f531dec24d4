"""Long and deep expressions: conditions without end, sums of a thousand terms, and an error of ours beyond that."""

from __future__ import annotations

import copy
import functools
import operator
import pickle
import subprocess
import sys
import threading
from typing import Any

import pyarrow as pa
import pytest
from support.running import start

import tidemill as tm
from tidemill.errors import SchemaError
from tidemill.expressions.binding import bind
from tidemill.expressions.bound import Bound, BoundCall
from tidemill.expressions.display import display
from tidemill.expressions.expr import Expr
from tidemill.expressions.recursion_guard import MAX_DEPTH, recursion_guard
from tidemill.expressions.rewriting import can_fail, conditions, substituted
from tidemill.expressions.schema import Schema
from tidemill.expressions.sql_text import as_expr, expr, to_sql
from tidemill.expressions.structure import identical
from tidemill.renderer.embedded.expressions.evaluator import compile_scalar
from tidemill.renderer.reference.expressions import evaluate

SCHEMA = Schema.of({"x": "int64", "p": "bool", "f": "float64"})


def chain(sign: Any, terms: list[Any]) -> Expr:
    made: Expr = functools.reduce(sign, terms)
    return made


def nested(function: Any, times: int) -> Any:
    return functools.reduce(lambda inner, _: function(inner), range(times), tm.col("x"))


DEEP: dict[str, tuple[Any, int, Any]] = {
    "or": (chain(operator.or_, [tm.col("x") == i for i in range(3000)]), 2999, True),
    "or from the right": (chain(lambda a, b: b | a, [tm.col("x") == i for i in range(1000)]), 1000, False),
    "or as text": (" or ".join(f"x = {i}" for i in range(1000)), 999, True),
    "and as text": (" and ".join(f"x <> {i}" for i in range(1000)), 999, False),
    "a sum": (chain(operator.add, [tm.col("x")] * MAX_DEPTH), 2, 2 * MAX_DEPTH),
    "a sum as text": (" + ".join(["x"] * MAX_DEPTH), 2, 2 * MAX_DEPTH),
    "parentheses": ("(" * 500 + "x" + ")" * 500, 7, 7),
    "parentheses that say something": ("(1 + " * 500 + "x" + ")" * 500, 7, 507),
    "calls": ("abs(" * 500 + "x" + ")" * 500, -7, 7),
    "calls from Python": (nested(tm.abs, MAX_DEPTH), -7, 7),
    "case": ("case when x = 1 then 1 else " * 200 + "x" + " end" * 200, 5, 5),
    "coalesce of what may fail": (nested(lambda e: tm.coalesce(e + 1, 0), 400), 1, 401),
    "not": ("not " * 600 + "x = 1", 1, True),
    "a cast": (nested(lambda e: e.cast("string").cast("int64"), 300), 5, 5),
    "minus": ("- " * 600 + "x", 3, 3),
    "aliases": (nested(lambda e: e.alias("y"), 3000), 3, 3),
    "when": (functools.reduce(lambda w, i: w.when(tm.col("x") == i, i), range(1500), tm.when("x = -1", 0)), 1400, 1400),
}


@pytest.fixture(scope="module")
def trees() -> dict[str, Bound]:
    return {name: bind(as_expr(given, SCHEMA), SCHEMA) for name, (given, _, _) in DEEP.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEP)
def test_evaluators(name: str, trees: dict[str, Bound]) -> None:
    _, x, expected = DEEP[name]
    row = (x, None, None)
    columns = [pa.array([x, None], pa.int64()), pa.nulls(2, pa.bool_()), pa.nulls(2, pa.float64())]
    assert evaluate(trees[name], row) == expected
    assert compile_scalar(trees[name])(columns, 2)[0].as_py() == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEP)
def test_text_and_back(name: str, trees: dict[str, Bound]) -> None:
    text = to_sql(trees[name])
    assert bind(expr(text), SCHEMA) == trees[name]
    to_sql(trees[name], explicit=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEP)
def test_what_is_asked_of_trees(name: str, trees: dict[str, Bound]) -> None:
    tree, given = trees[name], as_expr(DEEP[name][0], SCHEMA)
    assert tree.columns() == {0}
    can_fail(tree)
    assert list(conditions(tree))
    assert substituted(tree, lambda column: column) == tree
    again = bind(as_expr(DEEP[name][0], SCHEMA), SCHEMA)
    assert hash(again) == hash(tree)
    for other in (again, pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree)):  # noqa: S301 - our own
        assert other == tree
        assert not isinstance(tree, BoundCall) or tree.columns() == other.columns()
    assert identical(given, as_expr(DEEP[name][0], SCHEMA))
    assert display(given)
    assert repr(given)


def test_conditions_are_flat(trees: dict[str, Bound]) -> None:
    for name in ("or", "or from the right", "or as text", "and as text"):
        tree = trees[name]
        assert isinstance(tree, BoundCall)
        assert (tree.depth, len(tree.args)) == (2, len(set(tree.args)))


@pytest.mark.slow
@pytest.mark.parametrize("given", [
    chain(operator.add, [tm.col("x")] * (MAX_DEPTH + 2)), nested(tm.abs, MAX_DEPTH + 1), nested(lambda e: e.cast("string").cast("int64"), 600),
    "abs(" * (MAX_DEPTH + 1) + "x" + ")" * (MAX_DEPTH + 1), " + ".join(["x"] * (MAX_DEPTH + 2)),
    "(" * 20_000 + "x" + ")" * 20_000, "abs(" * 20_000 + "x" + ")" * 20_000,
])  # fmt: skip
def test_beyond_that_it_is_an_error_of_ours(given: Any) -> None:
    with pytest.raises(SchemaError, match="nested more than 1,000 levels deep: compute a part of it in with_columns"):
        bind(as_expr(given, SCHEMA), SCHEMA)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["or", "or as text", "a sum", "calls"])
def test_on_every_engine(engine: str, name: str) -> None:
    given, x, expected = DEEP[name]
    flow = tm.Dataflow()
    c = flow.input("c", {"x": "int64"})
    flow.output("out", c.select(v=given))
    flow.output("kept", c.filter(given if expected is True else tm.col("x") == x))
    flow.output("agg", c.agg(n=tm.count().filter(given if expected is True else tm.col("x") == x)))
    with start(flow, engine) as run:
        run.insert("c", [(x,)])
        run.advance()
        assert list(run.snapshot("out")) == [(expected,)]
        assert list(run.snapshot("kept")) == [(x,)]
        assert list(run.snapshot("agg")) == [(1,)]


def test_a_larger_stack_is_for_the_call_alone() -> None:
    limit, size = sys.getrecursionlimit(), threading.stack_size()
    seen = []

    @recursion_guard
    def deep(n: int) -> int:
        seen.append(threading.current_thread())
        return down(n)

    def down(n: int) -> int:
        return 0 if n == 0 else 1 + down(n - 1)

    assert (deep(10), deep(5000)) == (10, 5000)
    assert [t is threading.main_thread() for t in seen] == [True, True, False]
    with pytest.raises(RecursionError):
        deep(10_000_000)
    assert (sys.getrecursionlimit(), threading.stack_size()) == (limit, size)


_INTERRUPTED = """
import signal, sys, threading, time
from tidemill.expressions.recursion_guard import recursion_guard

signal.signal(signal.SIGINT, signal.default_int_handler)
done = []

def depth_of(n):
    if n == 0:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(1)
        return sorted([3, 1, 2], key=lambda x: depth_of(-1) if x == 0 else x)[0] - 1
    return 1 + depth_of(n - 1)

@recursion_guard
def depth(n):
    done.append(depth_of(n))
    return done[0]

before = sys.getrecursionlimit()
try:
    depth(20_000)
except KeyboardInterrupt:
    print("interrupted", done, sys.getrecursionlimit() == before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals to a thread")
def test_ctrl_c_leaves_room_to_what_is_deep_until_it_ends() -> None:
    """Python's limit of frames was taken back beneath a thread that was beyond it, of which the process died."""
    found = subprocess.run([sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, check=False)
    assert (found.stdout, found.returncode) == ("interrupted [20000] True\n", 0), found.stderr[:2000]
