"""What is many goes into joins as it came, and is met from whichever side is the smaller: as pairs, the same."""

from collections import Counter
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

import tidemill as tm
from tidemill.dataflow.lattice import Antichain
from tidemill.expressions.types import INT64
from tidemill.renderer.embedded.executor import EmbeddedExecutor
from tidemill.renderer.embedded.kernels import sorting
from tidemill.renderer.embedded.kernels.updates import NULL, hashed, marked
from tidemill.renderer.embedded.operators import arrange, input_output, join
from tidemill.renderer.embedded.trace import batch, spine
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.transaction import Transaction
from tidemill.testing import check_equivalent

CODES = st.integers(0, 3) | st.sampled_from([NULL, 2**62, -(2**62), 2**63 - 1])
ROWS = st.lists(st.tuples(CODES, CODES), min_size=1, max_size=12)
KEYED = st.lists(
    st.tuples(
        st.tuples(st.integers(0, 2) | st.none(), st.integers(0, 2) | st.none(), st.integers(0, 1)),
        st.integers(0, 2),
        st.sampled_from([1, 1, 1, -1, 2]),
    ),
    max_size=9,
)


@pytest.mark.parametrize("hashing", ["hashes", "collisions"])
@pytest.mark.parametrize("fewer", [0, 10**9])
def test_pairs_of_keys_in_order_are_those_that_are_equal(monkeypatch, hashing, fewer):
    """Whether updates are looked up among the keys or keys among the updates, in batches and in the tail."""
    monkeypatch.setattr(join, "_FEWER", fewer)
    hashes = hashed if hashing == "hashes" else lambda codes: np.zeros(codes.shape[1], np.int64)
    for module in (join, batch, spine):
        monkeypatch.setattr(module, "hashed", hashes)

    @examples(150)
    @given(ROWS, st.lists(ROWS, max_size=3))
    def check(keys, blocks):
        sought = np.array(keys, np.int64).T
        sought = sought.take(hashes(sought).argsort(kind="stable"), axis=1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spine, "TAIL", 4)  # so that there are batches
            here = Spine(UpdateLayout((0, 1), (INT64, INT64), 1, 1), lambda: Antichain([(0,)]), Transaction())
            for rows in blocks:
                here.append(np.array([(*row, 0, 1) for row in rows], np.int64).T)
        mine, theirs, others = join.pairs_of_many(sought, None, here, None)
        mine = np.arange(len(keys)) if mine is None else mine
        theirs = np.arange(others.shape[1]) if theirs is None else theirs
        found = [
            (tuple(sought[:, i].tolist()), tuple(others[:2, j].tolist()), int(others[-1, j]))
            for i, j in zip(mine.tolist(), theirs.tolist(), strict=True)
        ]
        pairs = Counter()
        for key, row, count in found:
            assert key == row
            pairs[key] += count
        there = Counter(row for rows in blocks for row in rows)
        assert pairs == Counter({key: n * there[key] for key, n in Counter(keys).items() if there[key]})

    check()


@pytest.mark.slow
@pytest.mark.parametrize("fewer", [0, 10**9])
def test_joins_of_what_is_not_consolidated_are_those_of_the_reference(monkeypatch, fewer):
    for module, name, value in (
        (sorting, "FEW", 1), (sorting, "PART", 3), (join, "MANY", 0), (join, "_FEWER", fewer),
        (arrange, "LARGE", 1), (arrange, "_SORTED", 1), (input_output, "LARGE", 1), (spine, "TAIL", 1),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    flow = tm.Dataflow("joined")
    one = flow.input("one", {"j": "int64", "k": "int64", "x": "int64"})
    other = flow.input("other", {"j": "int64", "k": "int64", "y": "int64"})
    flow.output("pairs", one.join(other, on="k", suffix="_other"))
    some = one.filter("j < 2 OR x = 1").select("j", "k", x="10 / (x + 1)")
    flow.output("both", some.join(other.select("j", "k", "y"), on=["j", "k"]))

    @examples(60)
    @given(KEYED, KEYED)
    def check(left, right):
        check_equivalent(flow, {"one": left, "other": right})

    check()


def test_what_only_joins_read_is_arranged_as_it_comes():
    flow = tm.Dataflow("joined")
    one, other = flow.input("one", {"k": "int64", "x": "int64"}), flow.input("other", {"k": "int64"})
    flow.output("pairs", one.filter("x > 0").join(other, on="k"))
    shown = flow.input("shown", {"k": "int64"})
    flow.output("also", shown.join(other, on="k"))
    flow.output("rows", shown)
    with flow.start() as run:
        compiled = cast("EmbeddedExecutor", run._stepper.executor).compiled
        inputs = {node.name: operator for node, operator in compiled.inputs.items()}
        assert {name: operator.may_repeat for name, operator in inputs.items()} == {
            "one": True, "other": True, "shown": False,
        }  # fmt: skip
        run.insert("other", [(1,), (2,)])
        run.insert("one", [(k, 1) for k in range(40_000)])
        run.insert("one", [(1, 1), (1, 1)])
        run.delete("one", [(2, 1)])
        run.advance()
        assert list(run.snapshot("pairs")) == [(1, 1)] * 3
        run.insert("one", [(3, x) for x in range(20_000)])
        run.insert("other", [(3,)])
        run.delete("other", [(1,)])
        run.advance()
        assert len(list(run.snapshot("pairs"))) == 20_000


def test_what_only_joins_in_loops_read_is_arranged_as_it_comes():
    """Edges that are there twice, and some that are gone again in the step they come in, lead where they should."""
    flow = tm.Dataflow("reached")
    edges, start = flow.input("edges", {"a": "int64", "b": "int64"}), flow.input("start", {"v": "int64"})
    reached = start.iterate(lambda here: here.join(edges, on={"v": "a"}).select(v="b").concat(start).distinct())
    flow.output("reached", reached)
    nodes = 20_000
    with flow.start() as run:
        compiled = cast("EmbeddedExecutor", run._stepper.executor).compiled
        assert {node.name: o.may_repeat for node, o in compiled.inputs.items()} == {"edges": True, "start": False}
        run.insert("start", [(0,)])
        run.insert("edges", pa.table({"a": np.arange(nodes) // 2, "b": np.arange(nodes)}))
        run.insert("edges", [(1, 2), (1, 2), (1, 3)])
        run.delete("edges", [(4, 8), (1, 3), (1, 3)])
        run.advance()
        gone = {3, 8}
        for node in range(4, nodes):
            if node // 2 in gone:
                gone.add(node)
        assert sorted(run.snapshot("reached")) == [(node,) for node in range(nodes) if node not in gone]
        run.insert("edges", [(0, 3), (0, 8)])
        run.advance()
        assert len(list(run.snapshot("reached"))) == nodes


def test_an_expression_may_fail_for_many_updates_that_cancel():
    flow = tm.Dataflow("cancelled")
    one, other = flow.input("one", {"k": "int64", "x": "int64"}), flow.input("other", {"k": "int64"})
    flow.output("pairs", one.with_columns(x="10 / x").filter("1 / (k + 1) > 0").join(other, on="k"))
    with flow.start() as run:
        run.insert("other", [(1,)])
        run.insert("one", [(k, 5) for k in range(20_000)])
        run.insert("one", [(1, 0), (-1, 1)])
        run.delete("one", [(1, 0), (-1, 1)])
        run.advance()
        assert list(run.snapshot("pairs")) == [(1, 2.0)]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=30), st.sampled_from([1, 3, 7]))
@examples(100)
def test_marked_updates_are_taken_a_part_at_a_time(rows, part):
    block = np.array([[x, -x] for _, x in rows], np.int64).reshape(-1, 2).T
    mask = np.array([is_marked for is_marked, _ in rows], np.bool_)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "PART", part)
        found = marked(block, mask)
    assert found.T.tolist() == [[x, -x] for is_marked, x in rows if is_marked]
