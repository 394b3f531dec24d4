"""What an epoch of one changed row costs, in calls: figures that need no quiet machine.

Counted are calls of tidemill's Python functions, comprehensions among them up to Python 3.11, and of NumPy's functions
and methods, operators and ufuncs left out; both as means of some epochs. They are the same in each run, so that a limit
can be close. Where a change is worth more calls, renew the limits: run ``python tests/embedded/test_one_row_epochs.py``
under Python 3.11, and put in what it prints, which is 5 % more than it counted. The tables are those of W1 to W3 and W11
in benchmarks/README.md, only smaller.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from math import ceil
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import tidemill as tm
from tidemill.expressions.expr import Expr
from tidemill.renderer.embedded.trace.pending import PendingUpdates
from tidemill.renderer.embedded.trace.spine import Spine

PACKAGE: Final = str(Path(tm.__file__).parent)
EPOCHS: Final = 40


class Calls(NamedTuple):
    """How many calls of each kind there were, or may be."""

    python: float
    numpy: float


LIMITS: Final = {
    "count by key": Calls(215, 32),
    "join": Calls(184, 20),
    "reachability": Calls(371, 122),
    "lag by prefix sums": Calls(2885, 1350),
    "lag in order": Calls(241, 34),
    "short average in order": Calls(257, 34),
    "sum by value in order": Calls(374, 117),
    "reading a hundred": Calls(53, 9),
    "least": Calls(296, 92),
    "top_k": Calls(268, 80),
    "numbers of the first rows": Calls(278, 74),
    "ten rows once closed": Calls(487, 162),
    "reading": Calls(45, 7),
}


def counted(work: Callable[[], object]) -> Calls:
    """Return the calls that something makes."""
    python = numpy = 0

    def seen(frame: Any, event: str, called: Any) -> None:
        nonlocal python, numpy
        if event == "call":
            python += frame.f_code.co_filename.startswith(PACKAGE)
        elif event == "c_call":
            of = getattr(called, "__self__", None)
            numpy += isinstance(of, np.ndarray) or str(getattr(called, "__module__", "")).startswith("numpy")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return Calls(python, numpy)


def mean(calls: list[Calls]) -> Calls:
    return Calls(*(sum(kind) / len(calls) for kind in zip(*calls, strict=True)))


def measured(run: tm.Run, changes: Iterator[Callable[[], object]]) -> tuple[Calls, Calls]:
    """Return the calls of an epoch, and of reading its changes as Arrow."""
    steps, reads = [], []
    for number, change in zip(range(10 + EPOCHS), changes, strict=False):

        def step(change: Callable[[], object] = change) -> None:
            change()
            run.advance()

        calls = counted(step), counted(lambda: run.changes("answer").to_arrow())
        if number >= 10:  # by then all is warm
            steps.append(calls[0])
            reads.append(calls[1])
    return mean(steps), mean(reads)


def count_by_key() -> tuple[Calls, Calls]:
    flow, dice = tm.Dataflow(), np.random.default_rng(1)
    flow.output("answer", flow.input("events", {"k": "int64"}).group_by("k").agg(n=tm.count()))
    loaded = dice.integers(0, 1000, 10_000)
    with flow.start() as run:
        run.insert("events", pa.table({"k": loaded}))
        run.advance()

        def changes() -> Iterator[Callable[[], object]]:
            for k, gone in zip(dice.integers(0, 1000, EPOCHS).tolist(), loaded.tolist(), strict=False):
                yield partial(run.insert, "events", [(k,)])
                yield partial(run.delete, "events", [(gone,)])

        return measured(run, changes())


def join() -> tuple[Calls, Calls]:
    flow, dice = tm.Dataflow(), np.random.default_rng(1)
    flow.output("answer", flow.input("l", {"k": "int64", "x": "int64"}).join(
        flow.input("r", {"k": "int64", "y": "int64"}), on="k"
    ))  # fmt: skip
    keys = dice.integers(0, 2000, (2, 2000))
    with flow.start() as run:
        for name, column, k in zip("lr", "xy", keys, strict=True):
            run.insert(name, pa.table({"k": k, column: np.arange(2000)}))
        run.advance()

        def changes() -> Iterator[Callable[[], object]]:
            for number in range(EPOCHS):
                for name, k in zip("lr", keys, strict=True):
                    new = int(dice.integers(2000))
                    yield partial(run.insert, name, [(new, 2000 + number)])
                    yield partial(run.delete, name, [(int(k[number]), number)])

        return measured(run, changes())


def reachability() -> tuple[Calls, Calls]:
    flow, dice = tm.Dataflow(), np.random.default_rng(1)
    edges, start = flow.input("edges", {"a": "int64", "b": "int64"}), flow.input("start", {"v": "int64"})
    onward = lambda here: here.join(edges, on={"v": "a"}).select(v="b").concat(start).distinct()  # noqa: E731
    flow.output("answer", start.iterate(onward))
    a, b = dice.integers(0, 1000, (2, 3000))
    with flow.start() as run:
        run.insert("edges", pa.table({"a": a, "b": b}))
        run.insert("start", [(0,)])
        run.advance()

        def changes() -> Iterator[Callable[[], object]]:
            for number in range(EPOCHS):
                new = tuple(dice.integers(0, 1000, 2).tolist())
                yield partial(run.delete, "edges", [(int(a[number]), int(b[number]))])
                yield partial(run.insert, "edges", [new])

        return measured(run, changes())


BY_T: Final = tm.Window.partition_by("p").order_by("t")


def window(call: Expr) -> tuple[Calls, Calls]:
    """A window call over partitions of a thousand rows, one of which goes and comes back."""
    flow, dice = tm.Dataflow(), np.random.default_rng(1)
    rows = flow.input("rows", {"p": "int64", "t": "int64", "x": "int64"})
    flow.output("answer", rows.with_columns(found=call))
    p, t = dice.integers(0, 4, 4000), dice.permutation(4000)
    with flow.start() as run:
        run.insert("rows", pa.table({"p": p, "t": t, "x": np.arange(4000)}))
        run.advance()

        def changes() -> Iterator[Callable[[], object]]:
            for number in range(EPOCHS):
                yield partial(run.delete, "rows", [(int(p[number]), int(t[number]), number)])
                yield partial(run.insert, "rows", [(int(p[number]), int(t[number]), number)])

        return measured(run, changes())


def least(top: int) -> tuple[Calls, Calls]:
    """The first rows of a large group, while the first one goes; 0 for the least value."""
    flow, dice = tm.Dataflow(), np.random.default_rng(1)
    groups = flow.input("rows", {"g": "int64", "v": "int64"}).group_by("g")
    flow.output("answer", groups.top_k(top, order_by=["v"]) if top else groups.agg(least=tm.min("v")))
    with flow.start() as run:
        run.insert("rows", pa.table({"g": np.zeros(10_000, np.int64), "v": dice.permutation(10_000)}))
        run.advance()
        return measured(run, (partial(run.delete, "rows", [(0, v)]) for v in range(10_000)))


def first_rows() -> tuple[Calls, Calls]:
    """The numbers of the first rows of large groups, one of which goes and comes back."""
    flow, dice = tm.Dataflow(), np.random.default_rng(1)
    rows = flow.input("rows", {"p": "int64", "t": "int64", "x": "int64"})
    flow.output("answer", rows.with_columns(number=tm.row_number().over(BY_T)).filter("number <= 10"))
    p, t, x = np.arange(20_000) % 4, np.arange(20_000), dice.integers(0, 9, 20_000)
    with flow.start() as run:
        run.insert("rows", pa.table({"p": p, "t": t, "x": x}))
        run.advance()
        gone = [(int(p[i]), int(t[i]), int(x[i])) for i in dice.permutation(40)[:EPOCHS]]

        def changes() -> Iterator[Callable[[], object]]:
            for row in gone:
                yield partial(run.delete, "rows", [row])
                yield partial(run.insert, "rows", [row])

        return measured(run, changes())


def on_close() -> tuple[Calls, Calls]:
    """A short average of a stream, ten rows an epoch, each given once."""
    flow, dice = tm.Dataflow(), np.random.default_rng(1)
    rows = flow.input("rows", {"p": "int64", "t": "int64", "x": "int64"}, watermark=("t", 20))
    mean = tm.avg("x").over(BY_T.rows_between(-4, 0))
    flow.output("answer", rows.with_columns(mean=mean, emit="on_close"))
    with flow.start() as run:

        def changes() -> Iterator[Callable[[], object]]:
            for epoch in range(10 + EPOCHS):
                p, x = dice.integers(0, 10, (2, 10)).tolist()
                t = (10 * epoch + np.arange(10) + dice.integers(-5, 5, 10)).tolist()
                yield partial(run.insert, "rows", list(zip(p, t, x, strict=True)))

        return measured(run, changes())


def all_counts() -> dict[str, Calls]:
    by_key, reading = count_by_key()
    by_value, reading_many = window(tm.sum("x").over(BY_T.range_between(-400, 0)))
    return {
        "count by key": by_key,
        "join": join()[0],
        "reachability": reachability()[0],
        "lag by prefix sums": window(tm.lag("x").over(BY_T, strategy="prefix_sum"))[0],
        "lag in order": window(tm.lag("x").over(BY_T))[0],
        "short average in order": window(tm.avg("x").over(BY_T.rows_between(-4, 0)))[0],
        "sum by value in order": by_value,
        "reading a hundred": reading_many,
        "least": least(0)[0],
        "top_k": least(10)[0],
        "numbers of the first rows": first_rows()[0],
        "ten rows once closed": on_close()[0],
        "reading": reading,
    }


@pytest.fixture(scope="module")
def counts() -> dict[str, Calls]:
    return all_counts()


@pytest.mark.slow
@pytest.mark.parametrize("what", LIMITS)
def test_an_epoch_of_one_row_makes_so_many_calls_at_most(counts: dict[str, Calls], what: str) -> None:
    found, limit = counts[what], LIMITS[what]
    assert found.python <= limit.python, f"{what}: {found}, expected {limit} at most: see how to renew it above"
    assert found.numpy <= limit.numpy, f"{what}: {found}, expected {limit} at most: see how to renew it above"


def test_a_step_makes_no_more_calls_where_changes_of_many_steps_were_not_read() -> None:
    flow = tm.Dataflow()
    flow.output("out", flow.input("x", {"i": "int64"}))
    with flow.start() as run:

        def step() -> None:
            run.insert("x", [(1,)])
            run.advance()

        step()
        first = counted(step).python
        for _ in range(200):
            step()
        assert min(counted(step).python for _ in range(3)) == first  # now and then one begins to merge


def test_a_step_of_many_rows_looks_at_a_few_rows_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a count by key: what is stored for the key, and the row that goes out for it, however large the group is."""
    found = 0
    find = Spine.find

    def counting(spine: Spine, *args: Any) -> Any:
        nonlocal found
        owner, updates = find(spine, *args)
        found += len(owner)
        return owner, updates

    flow, dice = tm.Dataflow(), np.random.default_rng(1)
    flow.output("answer", flow.input("events", {"k": "int64"}).group_by("k").agg(n=tm.count()))
    with flow.start() as run:
        run.insert("events", pa.table({"k": dice.integers(0, 1000, 100_000)}))
        run.advance()
        monkeypatch.setattr(Spine, "find", counting)
        for _ in range(20):
            run.insert("events", pa.table({"k": dice.integers(0, 1000, 500)}))
            run.advance()
    assert found / (20 * 500) < 2


def test_a_row_comes_to_rest_within_seven_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """From `run.insert` to where it waits for its step: each call between is one that a reader has to follow."""
    add, ways = PendingUpdates.add, []

    def noting(pending: PendingUpdates, updates: Any) -> None:
        frame: FrameType | None = sys._getframe(1)
        way: list[str] = []
        while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
            way.append(frame.f_code.co_name)
            frame = frame.f_back
        ways.append(way)
        add(pending, updates)

    flow = tm.Dataflow()
    flow.output("out", flow.input("x", {"i": "int64"}))
    with flow.start() as run:
        monkeypatch.setattr(PendingUpdates, "add", noting)
        run.insert("x", [(1,)])
    (way,) = ways
    assert "insert" in way
    assert len(way) <= 7, way


def test_a_count_of_calls_sees_one_more() -> None:
    array = np.arange(3)
    assert counted(lambda: array.take([0])).numpy == 1
    assert counted(lambda: (array.take([0]), array.take([1]))).numpy == 2
    times = counted(lambda: tm.Antichain([1])).python
    assert counted(lambda: [tm.Antichain([1]), tm.Antichain([1])]).python == 2 * times > 0


if __name__ == "__main__":
    for name, calls in all_counts().items():
        sys.stdout.write(f'    "{name}": Calls({ceil(calls.python * 1.05)}, {ceil(calls.numpy * 1.05)}),\n')
