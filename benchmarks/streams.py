"""Endless streams: what is held while events go past, of operators that forget behind watermarks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.runner import Figures, spread

_RATE = 4
"""Events a second."""
_LATE = 60
"""Seconds that most events are late at most; one in a thousand is later."""
_EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - timestamps have no zone


def soak(*, events: int, step: int, users: int, samples: int, kinds: tuple[str, ...], on_time: bool) -> Figures:
    """Events through sessions, groups by hour, a band join and a deduplication, and what operators hold meanwhile.

    Each step has so many events of the first stream and half as many of the second one, which follow events of the
    first within 30 seconds; one in ten is there twice. What comes out is counted, so that outputs stay small; they are
    left out, as is what of them nobody read. With ``on_time=False`` what is late is not dropped, and all is kept.
    """
    found: dict[str, Figures] = {}
    for kind in kinds:
        flow = tm.Dataflow("soak")
        seen, done = (
            flow.input(name, {"id": "int64", "who": "string", "ts": "timestamp not null"}, watermark=("ts", _delay()))
            for name in ("seen", "done")
        )
        one, other = (c.on_time("ts") if on_time else c for c in (seen, done))
        flow.output("out", _KINDS[kind](one, other, seen))
        found[kind] = _soaked(flow, events, step, users, samples)
    return {
        "soak": {kind: figures["cost"] for kind, figures in found.items()},
        "held": [{"kind": kind, **sample} for kind, figures in found.items() for sample in figures["held"]],
    }


def _delay() -> dt.timedelta:
    return dt.timedelta(seconds=_LATE)


def _sessions(_seen: Any, _done: Any, raw: Any) -> Any:
    by_user = tm.Window.partition_by("who").order_by("ts")
    rows = raw.with_columns(start=tm.session("ts", tm.interval(minutes=5)).over(by_user), emit="on_close")
    sessions = rows.group_by("who", "start").agg(n=tm.count(), end=tm.max("ts"))
    return sessions.agg(sessions=tm.count(), events=tm.sum("n"))


def _hours(seen: Any, _done: Any, _raw: Any) -> Any:
    hours = seen.group_by("who", hour="date_trunc('hour', ts)").agg(n=tm.count())
    return hours.group_by("hour").agg(users=tm.count(), events=tm.sum("n")).agg(hours=tm.count(), most=tm.sum("events"))


def _pairs(seen: Any, done: Any, _raw: Any) -> Any:
    later = done.select("who", done="ts")
    pairs = seen.join(later, on="who", where="done >= ts and done <= ts + interval 30 seconds")
    return pairs.agg(pairs=tm.count())


def _distinct(seen: Any, _done: Any, _raw: Any) -> Any:
    return seen.distinct().agg(events=tm.count())


_KINDS = {"sessions": _sessions, "by hour": _hours, "band join": _pairs, "deduplication": _distinct}


def _soaked(flow: tm.Dataflow, events: int, step: int, users: int, samples: int) -> Figures:
    run, held, times = flow.start(progress=False), [], list[float]()
    steps = -(-events // step)
    marks = {steps * (i + 1) // samples for i in range(samples)}
    cpu = 0.0
    for number, (seen, done) in enumerate(_tables(events, step, users), 1):
        start, before = perf_counter(), process_time()
        run.insert("seen", seen)
        run.insert("done", done)
        run.advance()
        run.changes("out")
        times.append(1e3 * (perf_counter() - start))
        cpu += process_time() - before
        if number in marks:
            figures = run.metrics()
            inside = [o for o in figures if o.kind != "Output"]
            held.append({
                "events": min(number * step, events),
                "rows": sum(o.state_rows + o.waiting for o in inside),
                "kilobytes": sum(o.bytes for o in inside) / 1024,
                "late": sum(o.late for o in inside),
                "interned": figures.memory.interned,
            })  # fmt: skip
    out = run.snapshot("out")
    ((*answer,),) = out
    run.close()
    answers = dict(zip(out.schema.names, answer, strict=True))
    return {"held": held, "cost": {"step_ms": spread(times), "processor_s": cpu, "answers": str(answers)}}


def _tables(events: int, step: int, users: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Give the events of each step: they come in the order of their times, but for what is late."""
    random = np.random.default_rng(8)
    names = pa.array([f"user {i}" for i in range(users)])
    for first in range(0, events, step):
        size = min(step, events - first)
        numbers = np.arange(first, first + size)
        numbers = np.concatenate((numbers, random.choice(numbers, size // 10)))[:size]
        who = (numbers * 7919) % 104_729 % users
        at = numbers * 1000 // _RATE - numbers * 48_271 % (500 * _LATE) - (numbers % 1000 == 0) * 3_600_000
        after = random.choice(size, size // 2, replace=False)
        followed = at[after] + numbers[after] * 16_807 % 40_000 - 5_000
        yield _table(numbers, names, who, at), _table(numbers[after], names, who[after], followed)


def _table(numbers: Any, names: pa.Array, who: Any, milliseconds: Any) -> pa.Table:
    base = np.datetime64(_EPOCH, "us")
    at = base + milliseconds.astype("timedelta64[ms]").astype("timedelta64[us]")
    return pa.table({"id": numbers, "who": names.take(pa.array(who)), "ts": pa.array(at)})
