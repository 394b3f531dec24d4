"""What loads and steps of many rows cost, in rows gone through for each that changed: no quiet machine is needed.

The dataflows are R1, R2, R3, R4 and R6 of benchmarks/README.md, only smaller, and with groups that suit: those that are
looked through stay of one size however many rows there are, those that are read in order are large; and one in which
rows go to an output as they are. ``row_work.py`` says what is counted. The figures are the same in each run, so that limits can be close. Where a change is worth more work,
renew them: run ``PYTHONPATH=tests/lib python tests/embedded/test_bulk_work.py``, and put in what it prints, 5 % more
than it counted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from math import ceil
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from support.row_work import Rows, RowWork

import tidemill as tm
from tidemill.renderer.embedded.kernels import updates
from tidemill.renderer.embedded.trace.spine import Spine

SMALL, LARGE = 10_000, 100_000
CHANGED: Final = 1_000
"""Rows of a step: half of them go and half of them come, or all are put by key."""
STEPS: Final = 20
GROWTH: Final = Rows(hashed=1.4, sorted=1.4, gathered=1.4, scanned=1.6, merged=3)
"""With ten times the rows, a step may do so many times the work.

The logarithm is 1.25; 1,000 changes meet more different keys among more, too. Some keys are numbered by tables of up
to four times as many places, which are scanned. Batches are merged with neighbours of a quarter of their size or more:
the logarithm is that of how many steps the state has, which doubles, and some merge may just have begun.
"""
LEAST: Final = 1
"""With less than this, growth says nothing."""


class Work(NamedTuple):
    """Rows gone through for each row loaded, and for each row that a step changes."""

    load: Rows
    step: Rows


LIMITS: Final = {
    "sums by group": Work(Rows(3.7, 2.3, 0.0, 44.9, 0.0), Rows(12.0, 10.3, 8.8, 165.4, 32.9)),
    "counts by group": Work(Rows(2.3, 1.4, 0.0, 30.6, 0.0), Rows(9.2, 7.5, 4.5, 106.7, 18.8)),
    "max by a string": Work(Rows(2.9, 1.9, 1.1, 35.6, 0.0), Rows(22.4, 8.0, 16.3, 192.3, 14.7)),
    "top_k": Work(Rows(2.2, 2.2, 0.1, 58.9, 0.0), Rows(2.9, 3.1, 1.2, 88.0, 5.8)),
    "join": Work(Rows(3.3, 3.3, 1.1, 52.1, 0.0), Rows(5.5, 3.6, 2.7, 62.1, 5.8)),
    "upsert": Work(Rows(5.8, 4.4, 0.0, 55.4, 0.0), Rows(29.4, 27.4, 19.9, 384.0, 77.4)),
    "rows themselves": Work(Rows(2.1, 2.1, 0.0, 32.6, 0.0), Rows(1.7, 0.6, 0.0, 29.0, 1.1)),
}


class Question(NamedTuple):
    """A dataflow of sales, how many users and categories so many of them have, and whether they are put by key."""

    build: Callable[[tm.Dataflow, tm.Collection], None]
    users: Callable[[int], int] = lambda rows: rows // 4
    categories: Callable[[int], int] = lambda rows: rows // 20
    upserts: bool = False


def sums(flow: tm.Dataflow, sales: tm.Collection) -> None:
    flow.output("answer", sales.group_by("category", "day").agg(n=tm.count(), total=tm.sum("amount")))


def counts(flow: tm.Dataflow, sales: tm.Collection) -> None:
    flow.output("counts", sales.group_by("category", "day").agg(n=tm.count(), items=tm.sum("item")))


def latest(flow: tm.Dataflow, sales: tm.Collection) -> None:
    flow.output("latest", sales.group_by("user").agg(last=tm.max("at")))


def dearest(flow: tm.Dataflow, sales: tm.Collection) -> None:
    flow.output("dearest", sales.group_by("category").top_k(3, order_by=[tm.desc("amount")]))


def joined(flow: tm.Dataflow, sales: tm.Collection) -> None:
    items = flow.input("items", {"item": "int64", "kind": "string"})
    of_items = sales.join(items, on="item")
    flow.output("joined", of_items.group_by("kind").agg(n=tm.count(), total=tm.sum("amount")))


def rows_themselves(flow: tm.Dataflow, sales: tm.Collection) -> None:
    flow.output("rows", sales.with_columns(double="amount * 2"))


QUESTIONS: Final = {
    "sums by group": Question(sums),
    "counts by group": Question(counts),
    "max by a string": Question(latest),
    "top_k": Question(dearest, categories=lambda _: 3),
    "join": Question(joined),
    "upsert": Question(sums, upserts=True),
    "rows themselves": Question(rows_themselves),
}
SCHEMA: Final = {
    "id": "int64", "item": "int64", "category": "string", "user": "string", "day": "int64", "at": "timestamp",
    "amount": "float64",
}  # fmt: skip


def sales_of(question: Question, rows: int, ids: Any, seed: int) -> pa.Table:
    """Return a random sale of each of these numbers, of a table of so many rows."""
    dice, n = np.random.default_rng(seed), len(ids)

    def named(what: str, count: int) -> pa.Array:
        return pa.array([f"{what} {i:06}" for i in dice.integers(0, count, n).tolist()])

    columns = {
        "id": pa.array(ids),
        "item": pa.array(dice.integers(0, rows // 100, n)),
        "category": named("category", question.categories(rows)),
        "user": named("user", question.users(rows)),
        "day": pa.array(dice.integers(0, 10, n)),
        "at": pa.array(dice.integers(0, 10**15, n)).view(pa.timestamp("us")),
        "amount": pa.array(dice.permutation(n) / 100 + seed),
    }
    return pa.table(columns)


def steps(question: Question, run: tm.Run, loaded: pa.Table) -> Iterator[Callable[[], None]]:
    """Yield functions that change rows, one for each step."""
    rows, dice = len(loaded), np.random.default_rng(1)
    gone = dice.permutation(rows)
    for number in range(STEPS):
        half = CHANGED // 2
        if question.upserts:
            put = sales_of(question, rows, dice.choice(rows, CHANGED, replace=False), 2 + number)
            yield lambda put=put: run.upsert("sales", put)  # type: ignore[misc]
            continue
        leaving = loaded.take(gone[half * number : half * (number + 1)]).combine_chunks()
        coming = sales_of(question, rows, rows + half * number + np.arange(half), 2 + number)

        def change(leaving: pa.Table = leaving, coming: pa.Table = coming) -> None:
            run.delete("sales", leaving)
            run.insert("sales", coming)

        yield change


def measured(question: Question, rows: int) -> Work:
    """Return the work of a load of so many rows, and of steps thereafter."""
    flow = tm.Dataflow()
    question.build(flow, flow.input("sales", SCHEMA, key="id" if question.upserts else None))
    loaded = sales_of(question, rows, np.arange(rows), 1)
    loads, of_steps = RowWork(), RowWork()
    with flow.start() as run:
        with loads:
            (run.upsert if question.upserts else run.insert)("sales", loaded)
            if question.build is joined:
                run.insert("items", [(item, f"kind {item % 50}") for item in range(rows // 100)])
            run.advance()
        for change in steps(question, run, loaded):
            with of_steps:
                change()
                run.advance()
    return Work(loads.rows.times(1 / rows), of_steps.rows.times(1 / (STEPS * CHANGED)))


def all_work() -> dict[str, tuple[Work, Work]]:
    """Return the work of each question, with few rows and with many."""
    return {name: (measured(question, SMALL), measured(question, LARGE)) for name, question in QUESTIONS.items()}


def grown(few: Rows, many: Rows) -> dict[str, tuple[float, float]]:
    """Return the figures that grow by more than they may, with few rows and with many."""
    found = {}
    for kind, factor, before, after in zip(Rows._fields, GROWTH, few, many, strict=True):
        if after > factor * max(before, LEAST):
            found[kind] = (before, after)
    return found


def beyond(work: Work, limit: Work) -> list[str]:
    """Return which figures are above their limits."""
    return [
        f"{part} {kind}: {figure:.2f}, expected {most} at most"
        for part in Work._fields
        for kind, figure, most in zip(Rows._fields, getattr(work, part), getattr(limit, part), strict=True)
        if figure > most
    ]


@pytest.fixture(scope="module")
def work() -> dict[str, tuple[Work, Work]]:
    return all_work()


@pytest.mark.slow
@pytest.mark.parametrize("what", LIMITS)
def test_each_row_of_a_load_or_a_large_step_takes_so_much_work_at_most(
    work: dict[str, tuple[Work, Work]], what: str
) -> None:
    for rows, found in zip((SMALL, LARGE), work[what], strict=True):
        assert not beyond(found, LIMITS[what]), f"{what}, {rows} rows: see how to renew limits above"


@pytest.mark.slow
@pytest.mark.parametrize("what", LIMITS)
def test_ten_times_the_rows_do_not_make_each_row_dearer(work: dict[str, tuple[Work, Work]], what: str) -> None:
    few, many = work[what]
    assert not grown(few.load, many.load), f"{what}, loads"
    assert not grown(few.step, many.step), f"{what}, steps"


@pytest.mark.slow
@pytest.mark.parametrize("what", LIMITS)
def test_a_step_that_sorts_all_of_the_state_is_noticed(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(Spine, "commit", Spine.exert)  # it merges all batches into one, by sorting them
    few, many = measured(QUESTIONS[what], SMALL), measured(QUESTIONS[what], LARGE)
    assert "sorted" in grown(few.step, many.step)
    assert any(found.startswith("step sorted") for found in beyond(many, LIMITS[what]))


@pytest.mark.slow
@pytest.mark.parametrize("what", LIMITS)
def test_a_step_that_looks_at_all_of_the_state_is_noticed(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(Spine, "commit", lambda spine: [batch.updates.any() for batch in spine.view.batches])
    few, many = measured(QUESTIONS[what], SMALL), measured(QUESTIONS[what], LARGE)
    assert "scanned" in grown(few.step, many.step)
    assert any(found.startswith("step scanned") for found in beyond(many, LIMITS[what]))


def test_work_is_counted_by_kind_and_only_where_it_is_asked_for() -> None:
    numbers = np.array([[3, 1, 2]])
    with RowWork() as work:
        updates.grouped(np.tile(numbers, 5))  # hashed, and its hashes ordered
        updates.expand(numbers[0], numbers[0])
    seen = work.rows
    assert seen.hashed == 15
    assert seen.sorted == 15
    assert seen.gathered == 6
    assert seen.scanned > 0
    updates.grouped(np.tile(numbers, 5))
    assert work.rows == seen


if __name__ == "__main__":
    for name, both in all_work().items():
        most = Work(*(Rows(*map(max, few, many)) for few, many in zip(*both, strict=True)))
        load, step = (", ".join(f"{ceil(10.5 * figure) / 10}" for figure in rows) for rows in most)
        sys.stdout.write(f'    "{name}": Work(Rows({load}), Rows({step})),\n')
