"""Ties of windows kept in order are broken by hashes that are worked out of ties alone, and are no column."""

import random

import numpy as np
import pyarrow as pa
import pytest

import tidemill as tm
from tidemill.expressions.functions.xxhash import xxhash64_of_words
from tidemill.renderer.embedded.expressions import few_rows
from tidemill.renderer.embedded.trace import row_order

T = tm.Window.order_by("t")
SCHEMA = {"t": "int64", "x": "int64"}


@pytest.fixture
def hashes(monkeypatch):
    """The rows whose hashes were worked out one by one."""
    seen = []
    words = xxhash64_of_words
    for module in (row_order, few_rows):
        monkeypatch.setattr(module, "xxhash64_of_words", lambda row, *seed: seen.append(row) or words(row, *seed))
    return seen


def started(schema=SCHEMA, engine=None):
    flow = tm.Dataflow()
    calls = {
        "before": tm.lag("x").over(T),
        "n": tm.row_number().over(T),
        "all": tm.list("x").over(T.rows_between(-1, 0)),
    }
    flow.output("y", flow.input("x", schema).with_columns(**calls))
    return flow.start(engine)


def test_a_row_without_peers_is_not_hashed_and_no_column_holds_a_hash(hashes):
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", SCHEMA).with_columns(before=tm.lag("x").over(T)))
    with flow.start() as run:
        assert "Reduce" in [node.kind for node in run.graph.nodes]
        assert not [node for node in run.graph.nodes if "hash" in node.schema.names]
        run.insert("x", pa.table({"t": np.arange(0, 4000, 2), "x": np.arange(2000)}))
        run.advance()
        run.insert("x", [(1001, 7)])
        run.delete("x", [(2000, 1000)])
        run.advance()
        assert len(run.changes("y")) > 2000
        assert not hashes


def test_a_row_that_goes_is_found_among_its_peers_without_a_hash(hashes):
    with started() as run:
        run.insert("x", pa.table({"t": np.arange(4000) // 400, "x": np.arange(4000)}))
        run.advance()
        run.delete("x", [(3, 1300)])
        run.advance()
        assert not hashes
        run.insert("x", [(3, 1300)])
        run.advance()
        assert hashes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("types", "values"),
    [
        ({"x": "int64"}, [3, None, -7, 2**60]),
        ({"x": "string"}, ["a", None, "b", ""]),
        ({"x": "float64"}, [0.5, None, -0.0, float("nan")]),
        ({"x": "decimal(38,2)"}, [None]),
    ],
    ids=str,
)
@pytest.mark.usefixtures("small_is_large")
def test_rows_come_to_their_peers_and_go_as_the_definition_has_it(types, values):
    """The order of peers is that of the reference engine, which computes and sorts by the hash itself."""
    dice = random.Random(4)
    rows = [(dice.randrange(3), dice.choice(values), dice.randrange(4)) for _ in range(40)]
    schema = {"t": "int64", **types, "z": "int64"}
    with started(schema) as run, started(schema, tm.Reference()) as reference:
        there = []
        for step in range(25):
            come = [dice.choice(rows) for _ in range(40 if not step else dice.randrange(3))]
            go = dice.sample(there, min(len(there) // 4, dice.randrange(3)))
            for one in (run, reference):
                one.insert("x", come)
                one.delete("x", go)
                one.advance()
            there += come
            for row in go:
                there.remove(row)
            assert run.snapshot("y").counts() == reference.snapshot("y").counts()


def test_the_hash_of_calls_over_other_calls_is_of_the_rows_without_these():
    """So it is a column of its own there: both windows order peers alike."""
    rows = [(1, x) for x in range(300)]
    flow = tm.Dataflow()
    down = tm.Window.order_by(tm.desc("t"))
    flow.output("y", flow.input("x", SCHEMA).with_columns(a=tm.row_number().over(T), b=tm.row_number().over(down)))
    with flow.start() as run:
        run.insert("x", rows)
        run.advance()
        assert all(a == b for *_, a, b in run.snapshot("y"))
