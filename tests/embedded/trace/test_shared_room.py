"""A matrix with room for times and counts is one reader's: another with other counts gets a matrix of its own."""

import numpy as np
import pyarrow as pa

import tidemill as tm
from tidemill.renderer.embedded.kernels.memory import Room, repeated, whole, zeros
from tidemill.renderer.embedded.operators.arrange import LARGE


def test_others_are_written_once():
    room = Room(zeros((3, 2)), 1)
    first = whole([*room.rows(), repeated(0, 2), repeated(1, 2)])
    other = whole([*room.rows(), repeated(0, 2), repeated(-1, 2)])
    again = whole([*room.rows(), repeated(0, 2), repeated(1, 2)])
    assert first is again is room.matrix
    assert (first[-1].tolist(), other[-1].tolist()) == ([1, 1], [-1, -1])


def test_rows_of_a_filtered_table_joined_with_a_projection_of_them(monkeypatch):
    asked = []
    monkeypatch.setattr(
        Room, "has_with", lambda room, others, has=Room.has_with: asked.append(others) or has(room, others)
    )
    n = 2 * LARGE + 5
    flow = tm.Dataflow()
    some = flow.input("rows", {"k": "int64", "v": "int64"}).filter("v > 2")
    flow.output("joined", some.join(some.select("k", z="v"), on="k"))
    with flow.start() as run:
        run.insert("rows", pa.table({"k": np.arange(n), "v": np.arange(n) % 7}))
        run.advance()
        passed = [(i, i % 7) for i in range(n) if i % 7 > 2]
        assert sorted(run.changes("joined")) == [((k, v, v), 0, 1) for k, v in passed]
    assert asked, "no reader took the matrix with its room"
