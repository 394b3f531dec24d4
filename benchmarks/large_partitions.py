"""Large partitions kept in their order: from where on that pays, what many changed rows cost, and what is held."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.engines.embedded import Embedded
from benchmarks.runner import Figures, apart, memory, say, seconds
from benchmarks.workload import SEED, Change, Row, Tables, Workload
from benchmarks.workloads import ALL
from benchmarks.workloads.windows import Ranks, Windowed
from tidemill.dataflow.passes import ranks
from tidemill.renderer.embedded.reduce import ordered_windows

W = tm.Window.partition_by("p").order_by("t")
CALLS = {
    "lag": tm.lag("x").over(W),
    "avg ROWS 4 PRECEDING": tm.avg("x").over(W.rows_between(-4, 0)),
    "sum RANGE": tm.sum("x").over(W.range_between(-100, 100)),
    "rank": tm.rank().over(W),
}
"""A row that comes changes the last for half of its partition, on average."""
RENDERINGS = {"in order": (1, 1, 1), "whole": (2**62, 2**62, 1)}
"""What `LARGE`, `SMALL` and `MANY` of the operator are then; else they are as they are."""


def _rendered(name: str) -> Any:
    """Return the context in which partitions are kept in order, computed whole, or as the operator decides."""
    as_is = (ordered_windows.LARGE, ordered_windows.SMALL, ordered_windows.MANY)
    large, small, many = RENDERINGS.get(name, as_is)
    return patch.multiple(ordered_windows, LARGE=large, SMALL=small, MANY=many)


def _run_of(call: Any, most: int | None = None) -> tm.Run:
    flow = tm.Dataflow("partitions")
    rows = flow.input("rows", {"p": "int64", "t": "int64", "x": "int64"}).with_columns(y=call)
    flow.output("answer", rows if most is None else rows.filter(f"y <= {most}"), changes=False)
    return flow.start()


def _step(put: Callable[..., None], rows: Any, run: tm.Run) -> float:
    """Put rows in, and return the milliseconds of processor time of the step."""
    put("rows", rows)
    return 1e3 * seconds(run.advance, process_time)


# -- thresholds -------------------------------------------------------------------------------------------------------


def window_thresholds(
    *, sizes: Sequence[int], parts: Sequence[int], total: int, halved: Sequence[int], epochs: int
) -> Figures:
    """From where on keeping partitions in order pays: `LARGE`, `SMALL` and `MANY` are set by what comes out.

    A row that comes in partitions of several sizes, and parts of one partition that come at once, in order and by whole
    partitions, medians. Then loads, and half of all rows that goes and comes back, in partitions of some sizes, as the
    operator does it and by whole partitions, in turn, the least of several times.
    """
    steps = [_in_both(call, size, 1, total, epochs) for call in CALLS for size in sizes]
    steps += [_in_both(call, total, total // part, total, max(epochs // 10, 3)) for call in CALLS for part in parts]
    large = [_of_many(call, size, max(epochs // 12, 2)) for call in CALLS for size in halved]
    return {"steps": steps, "large_steps": large}


def _in_both(call: str, size: int, changed: int, total: int, epochs: int) -> Figures:
    """Return how long a step takes in either rendering."""
    found: Figures = {"call": call, "rows": size, "changed": changed}
    for name in RENDERINGS:
        with _rendered(name):
            found[name] = _milliseconds(call, size, changed, total, epochs)
    return found


def _milliseconds(call: str, size: int, changed: int, total: int, epochs: int) -> float:
    dice, partitions = np.random.default_rng(0), total // size

    def some(count: int, *, of: int | None = None) -> pa.Table:
        p = np.full(count, of) if of is not None else np.arange(count) % partitions
        return pa.table({"p": p, "t": dice.integers(0, size * 10, count), "x": dice.integers(-99, 99, count)})

    times = []
    with _run_of(CALLS[call]) as run:
        _step(run.insert, some(total), run)
        for epoch in range(epochs + 3):
            come = some(changed, of=epoch % min(partitions, 4))
            times += [_step(put, come, run) for put in (run.insert, run.delete)]
    return median(times[6:])


def _of_many(call: str, size: int, times: int) -> Figures:
    """Return how long large steps take in many partitions, as is, and by whole partitions."""
    names = ("load", "half goes", "half comes")
    taken: dict[str, list[list[float]]] = {"as is": [], "whole": []}
    for _, rendering in product(range(times), taken):
        with _rendered(rendering):
            taken[rendering].append(_large_steps(call, size))
    least = {name: [min(step) for step in zip(*runs, strict=True)] for name, runs in taken.items()}
    return {"call": call, "rows": size, **{name: dict(zip(names, ms, strict=True)) for name, ms in least.items()}}


def _large_steps(call: str, size: int, total: int = 100_000) -> list[float]:
    dice, partitions = np.random.default_rng(0), total // size
    n = partitions * size
    t, x = dice.integers(0, size * 10, n), dice.integers(-99, 99, n)
    table = pa.table({"p": np.arange(n) % partitions, "t": t, "x": x})
    half = table.take(pa.array((np.arange(n) // partitions % 2 == 0).nonzero()[0]))
    with _run_of(CALLS[call]) as run:
        return [_step(put, some, run) for put, some in ((run.insert, table), (run.delete, half), (run.insert, half))]


def window_limits(*, sizes: Sequence[int], most: Sequence[int]) -> Figures:
    """What sets the ceiling of `limit_ranks`, where only the first k rows of partitions are asked for.

    A row that comes and goes among the first k, and one anywhere, with that limit and without.
    """
    found = []
    for size, k in product(sizes, most):
        about: Figures = {"rows": size, "k": k}
        for name, ceiling in (("limited", 2**62), ("in order", 0)):
            with patch.object(ranks, "CEILING", ceiling):
                among, anywhere = _with_limit(size, k)
            about |= {f"{name}, among them": among, f"{name}, anywhere": anywhere}
        found.append(about)
    return {"limits": found}


def _with_limit(size: int, most: int) -> list[float]:
    dice, n = np.random.default_rng(0), 100_000 // size * size
    table = pa.table({"p": np.arange(n) % (n // size), "t": dice.permutation(n) * 10, "x": np.arange(n)})
    times: tuple[list[float], list[float]] = [], []
    with _run_of(tm.row_number().over(W), most) as run:
        _step(run.insert, table, run)
        for _ in range(12):
            for end, taken in zip((min(most, size) * 10 * n // size, n * 10), times, strict=True):
                row = [(0, int(dice.integers(end)) + 1, 5)]
                taken += [_step(put, row, run) for put in (run.insert, run.delete)]
    return [median(taken[4:]) for taken in times]


# -- many changed rows ------------------------------------------------------------------------------------------------

Move: TypeAlias = tuple[Row, Row]


class LeastOfHundred(Windowed):
    name = "W7m"
    title = "min ROWS 50 PRECEDING..50 FOLLOWING of 1,000,000 rows in one partition"
    rows = 1_000_000
    over = "min(x) OVER (ORDER BY t ROWS BETWEEN 50 PRECEDING AND 50 FOLLOWING)"


def _workload(name: str, scale: float) -> Windowed:
    known: dict[str, type[Workload]] = {**ALL, "W7m": LeastOfHundred}
    found = known[name](scale)
    assert isinstance(found, Windowed)
    return found


def window_bulk(*, names: Sequence[str], scale: float, rows: int, times: int) -> Figures:
    """Rows of W4 to W12 that go, and come back at other times: one by one in some epochs, all at once in others.

    In turn, in the same run; processor time of putting them in and advancing, medians; reading is not timed.
    """
    return {"ms": {name: _of_many_rows(_workload(name, scale), rows, times) for name in names}}


def _of_many_rows(workload: Windowed, count: int, times: int) -> Figures:
    say(workload.name)
    tables = workload.tables()
    moves = _moves(workload, tables, count)
    engine = _loaded(workload, tables)
    one, many = list[float](), list[float]()
    dice = np.random.default_rng(1)
    for time in range(times + 1):
        some = [moves[at] for at in dice.integers(len(moves), size=10).tolist()]
        taken = [_epoch(engine, changes) for move in some for changes in _to_and_fro(workload, [move])]
        at_once = [_epoch(engine, changes) for changes in _to_and_fro(workload, moves, tables["events"].schema)]
        if time:  # the first time warms up
            one += taken
            many += at_once
    engine.close()
    ratio = round(median(many) / median(one))
    return {"one": median(one), "many": median(many), "times as long": ratio, "many, least": min(many)}


def window_half(*, names: Sequence[str], scale: float, times: int) -> Figures:
    """Half of all rows that goes, and comes back, beside all partitions computed whole: in turn, the least of times."""
    return {"ms": {name: _of_half(_workload(name, scale), times) for name in names}}


def _of_half(workload: Windowed, times: int) -> Figures:
    say(workload.name)
    events = workload.tables()["events"]
    half = events.take(pa.array((np.arange(events.num_rows) % 2).nonzero()[0]))
    taken: dict[str, list[float]] = {"as is": [], "whole": []}
    engines = {}
    for name in taken:
        with _rendered(name):
            engines[name] = _loaded(workload, {"events": events})
    for _, sign, name in product(range(times), (-1, 1), taken):
        with _rendered(name):
            taken[name].append(_epoch(engines[name], [Change("events", half, sign)]))
    for engine in engines.values():
        engine.close()
    least = {
        what: {name: min(ms[at::2]) for name, ms in taken.items()}
        for at, what in enumerate(("half goes", "half comes"))
    }
    return {**least, "share": max(of["as is"] / of["whole"] for of in least.values())}


def _loaded(workload: Workload, tables: Tables) -> Embedded:
    engine = Embedded(workload)
    engine.load(tables)
    engine.read()
    return engine


def _moves(workload: Windowed, tables: Tables, count: int) -> list[Move]:
    """Return the first rows that a workload takes out, each with what it puts in for it."""
    changes = workload.changes(tables)
    pairs: Iterator[tuple[Any, Any]] = islice(zip(changes, changes, strict=False), count)
    return [(gone.rows[0], come.rows[0]) for gone, come in pairs]


def _to_and_fro(workload: Windowed, moves: list[Move], schema: pa.Schema | None = None) -> list[list[Change]]:
    """Return epochs in which rows move, and move back: tuples, or tables of a schema."""
    gone, come = ([move[side] for move in moves] for side in (0, 1))
    if schema is not None:
        gone, come = (
            pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
            for rows in (gone, come)
        )
    epochs = [Change("events", rows, sign) for rows, sign in ((gone, -1), (come, 1), (come, -1), (gone, 1))]
    if isinstance(workload, Ranks):  # there a row moves in one epoch
        return [epochs[:2], epochs[2:]]
    return [[change] for change in epochs]


def _epoch(engine: Embedded, changes: list[Change]) -> float:
    """Return the milliseconds of an epoch, whose changes are read then."""
    taken = 1e3 * seconds(lambda: engine.step(changes), process_time)
    engine.read()
    return taken


# -- what is held -----------------------------------------------------------------------------------------------------


def window_memory(*, names: Sequence[str], scale: float, changes: int) -> Figures:
    """Bytes a row of windows in order, each workload in a process of its own; see `held_by_windows`."""
    return {"bytes_a_row": {n: apart("large_partitions:held_by_windows", n, scale, changes) for n in names}}


def held_by_windows(name: str, scale: float, changes: int) -> Figures:
    """Return what a workload holds, in bytes a row of its table, after a load and after rows changed one at a time.

    - *operator*: what the operator of the window says that it holds, after the load and after the changes;
    - *answer*: what the output says of its contents, which every dataflow keeps for whoever reads them;
    - *input*: held once the table was put in, before the step: its rows as codes, which stay until the step is done,
      since a load that fails gives them back;
    - *peak*: held at most while the table was put in and the step made: *input*, what the operator and the output hold
      from then on, changes that nobody has read yet, and whatever is worked out on the way and given up;
    - *held*: held once the answer was read and let go of, and after the changes.

    The last three are resident memory of the process, less what was resident with everything imported, a small dataflow
    like this one run, and the Arrow table in hand. Linux only, which says what a process holds and held at most.
    """
    small = ALL[name](0.001)
    _loaded(small, small.tables()).close()  # imports and compiles what comes with the first step
    workload = ALL[name](scale)
    engine, events = Embedded(workload), workload.tables()["events"]
    base, rows = _resident("VmRSS"), events.num_rows
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
    used = seconds(lambda: engine.put("events", events), process_time)
    put = _resident("VmRSS") - base
    used += seconds(engine.run.advance, process_time)
    peak = _resident("VmHWM") - base
    engine.read()
    held, (windows, answer) = _resident("VmRSS") - base, _of_operators(engine)
    dice = np.random.default_rng(SEED + 1)
    for _ in range(changes):
        (row,) = events.slice(int(dice.integers(rows)), 1).to_pylist()
        for change in (engine.run.delete, engine.run.insert):
            change("events", [tuple(row.values())])
            engine.run.advance()
            engine.read()
    amounts = {
        "operator": windows, "operator_changed": _of_operators(engine)[0], "answer": answer, "input": put, "peak": peak,
        "held": held, "held_changed": _resident("VmRSS") - base,
    }  # fmt: skip
    return {"rows": rows, **{what: round(amount / rows, 1) for what, amount in amounts.items()}, "load_cpu_s": used}


def _of_operators(engine: Embedded) -> tuple[int, int]:
    """Return the bytes of the window's operator, and of the output."""
    measures = list(engine.run.metrics())
    answer = sum(m.bytes for m in measures if m.kind == "Output")
    return sum(m.bytes for m in measures) - answer, answer


def _resident(which: str) -> float:
    gc.collect()
    return (memory(which) or 0.0) * 2**20
