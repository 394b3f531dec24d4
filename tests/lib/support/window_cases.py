"""Random cases of windows, each compared on all engines: those on close, and those kept in order, in all renderings."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs
from hypothesis import strategies as st
from support import closing_windows, random_windows
from support.renderings import RENDERINGS, counted_switches, thresholds

from tidemill.collections.collection import Collection
from tidemill.errors import StepError
from tidemill.expressions.windows.calls import WindowCall, session
from tidemill.flow import Dataflow
from tidemill.renderer.runs.run import Run
from tidemill.testing.batchings import all_at_once, shuffled, time_by_time
from tidemill.testing.equivalence import check_equivalent, engine_named
from tidemill.testing.random_flows import Case

Update: TypeAlias = tuple[Any, int, int]
Changes: TypeAlias = dict[str, list[str]]
"""Of each output, of one time; or an error."""

SPOILT: Final = 77
"""The number by which a row has its step refused."""
_BY_PREFIX_SUM: Final = 10
"""One in so many cases is rendered as sums over the order, too: some hundred operators for each call."""


@attrs.frozen(repr=False)
class WindowCase(Case):
    """A dataflow with windows and updates for its inputs; beside them rows that have a step refused."""

    spoilt: Sequence[Any] = ()
    seed: int = 0
    """What shuffled batchings and refused steps are drawn by."""
    sums: Dataflow | None = None
    """The same windows rendered as sums over the order."""


_ORDERS: Final = (closing_windows.W, closing_windows.V, closing_windows.ALL)


@st.composite
def on_close(draw: st.DrawFn) -> WindowCase:
    """Draw windows that are given once, calls or sessions, over rows of which some are late or taken back."""
    flow = Dataflow("on_close")
    x = flow.input("x", closing_windows.ROW, watermark=("ts", draw(st.integers(0, 4))))
    kind = draw(st.sampled_from(["any", "bounded", "bounded", "sessions"]))
    if kind == "sessions":
        calls: dict[str, Any] = {"start": session("ts", draw(st.integers(0, 3))).over(draw(st.sampled_from(_ORDERS)))}
    elif kind == "bounded":
        calls = draw(closing_windows.calls((draw(st.sampled_from(_ORDERS)),), unbounded=False))
    else:
        calls = draw(closing_windows.calls())
    flow.output("closed", x.with_columns(**calls, emit="on_close"))
    flow.output("sorted", x.sort_buffer("ts"))
    flow.output("late", x.late_rows("ts"))
    flow.output("checked", _checked(x, "v"))
    updates = {
        "x": draw(closing_windows.updates(size=14, least=draw(_LEAST))),
        "x.watermark": draw(closing_windows.told()),
    }
    spoilt = [(key, ts, SPOILT) for key in "ab" for ts in (None, 1, 6, 50)]
    return WindowCase(flow, updates, spoilt, draw(_SEEDS))


@st.composite
def windows(draw: st.DrawFn) -> WindowCase:
    """Draw window calls over rows that come and go: of any types, or of numbers, whose frames mostly have bounds."""
    numbers_alone, least = draw(st.booleans()), draw(_LEAST)
    schema = random_windows.NUMBERS_ALONE if numbers_alone else draw(random_windows.schemas())
    window, order_type = draw(random_windows.windows(schema))
    some = draw(st.lists(random_windows.calls(schema, window, order_type), min_size=1, max_size=2))
    calls = {f"c{i}": call for i, call in enumerate(some)}
    values = _VALUES if numbers_alone else None
    updates = draw(
        random_windows.changing_rows(schema, most=16, latest=draw(st.sampled_from([2, 5])), least=least, values=values)
    )
    sums = None
    if draw(st.sampled_from(range(_BY_PREFIX_SUM))) == _BY_PREFIX_SUM - 1:
        sums = _flow_of(schema, {name: attrs.evolve(call, strategy="prefix_sum") for name, call in calls.items()})
    spoilt = [(*row[:-1], SPOILT) for row, _, _ in updates]
    return WindowCase(_flow_of(schema, calls), {"x": updates}, spoilt, draw(_SEEDS), sums)


_VALUES: Final = {"k": ["a", "a", "b"], "t": [None, *range(8)], "u": [0, 1], "x": [None, 1, 2, 5], "n": [1, 2]}
_SEEDS: Final = st.integers(0, 2**16)
_LEAST: Final = st.sampled_from([0, 4, 8])
"""Rows at least: lists that are drawn of any length are short, mostly."""


def _flow_of(schema: Mapping[str, str], calls: Mapping[str, WindowCall]) -> Dataflow:
    flow = Dataflow("windows")
    x = flow.input("x", schema)
    flow.output("y", x.with_columns(**calls))
    flow.output("checked", _checked(x, "n"))
    return flow


def _checked(x: Collection, column: str) -> Collection:
    """Return nothing, or where rows are spoilt an error: after the windows have taken the step."""
    return x.filter(f"{column} = {SPOILT}").select(y=f"1 div ({column} - {SPOILT})")


def compare_on_close(case: WindowCase, engines: Sequence[str]) -> Counter[str]:
    """Compare a case of `on_close`, and return what it had: late rows, rows taken back, and so on."""
    plans = [all_at_once, time_by_time, shuffled(case.seed)]
    check_equivalent(case.flow, case.updates, engines=engines, batchings=plans)
    check_equivalent(case.flow, case.updates, engines=engines, batchings=[shuffled(case.seed + 1)], passes=True)
    wanted = _by_first(case, engines)
    late = sum(len(there.get("late", ())) for there in wanted)
    found = Counter({"batchings": len(plans) + 1, "late updates": late, "cases with late rows": late > 0})
    return _had(case, wanted) + found + _refused(case, engines, wanted)


def compare_windows(case: WindowCase, engines: Sequence[str]) -> Counter[str]:
    """Compare a case of `windows` in several renderings, and return what it had: switches between them, and so on."""
    wanted = _by_first(case, engines)
    found = _had(case, wanted)
    for number, alike in enumerate(RENDERINGS):
        name = [*alike][case.seed % len(alike)]
        plans = [time_by_time if number else all_at_once, shuffled(case.seed + number)]
        try:
            with thresholds(*alike[name]), counted_switches() as switches:
                check_equivalent(case.flow, case.updates, engines=engines, batchings=plans)
                if number:
                    found += _refused(case, engines, wanted)
        except AssertionError as error:
            error.add_note(f"rendering: {name}")
            raise
        found += switches + Counter(batchings=len(plans))
    if case.sums is not None:
        check_equivalent(case.sums, case.updates, engines=engines, batchings=[shuffled(case.seed)])
        found += Counter({"batchings": 1, "cases as sums over the order, too": 1})
    both = found["partitions into their order"] and found["partitions out of their order"]
    return found + Counter({"cases with switches to and fro": bool(both)})


def _had(case: Case, wanted: Sequence[Changes]) -> Counter[str]:
    back = any(diff < 0 for updates in case.updates.values() for _, _, diff in updates)
    is_error = any("error" in there for there in wanted)
    return Counter({
        "cases": 1, "cases with retractions": back, "cases with several times": len(_times(case)) > 1,
        "cases with an error": is_error,
    })  # fmt: skip


def _times(case: Case) -> list[int]:
    return sorted({time for updates in case.updates.values() for _, time, _ in updates})


def _by_first(case: WindowCase, engines: Sequence[str]) -> list[Changes]:
    """Return what the first engine gives, time by time, up to one that cannot be taken."""
    found = list[Changes]()
    with case.flow.start(engine_named(engines[0])) as run:
        for time in _times(case):
            if not any("error" in there for there in found[-1:]):
                found.append(_step(run, case, time))
    return found


def _refused(case: WindowCase, engines: Sequence[str], wanted: Sequence[Changes]) -> Counter[str]:
    """Follow the other engines time by time, where some steps are tried before with more rows, of which one is spoilt.

    What comes out has to be the same. Returns how many steps were refused.
    """
    dice, found = random.Random(case.seed), Counter[str]()  # noqa: S311 - not a secret
    for engine in engines[1:]:
        with case.flow.start(engine_named(engine), keep=dice.choice([0, 0, 2])) as run:
            for time, there in zip(_times(case), wanted, strict=False):
                if case.spoilt and dice.random() < 0.6:  # noqa: PLR2004
                    _refuse(run, case, time, dice)
                    found["refused steps"] += 1
                here = _step(run, case, time)
                assert here == there, f"after a refused step, at time {time}: {here} by {engine}, {there} expected"
    return found


def _step(run: Run, case: Case, time: int) -> Changes:
    """Return the changes of a time by output, or as ``error`` what kind it is."""
    for name, updates in case.updates.items():
        run.update(name, [u for u in updates if u[1] == time])
    try:
        run.advance_to(time + 1)
    except StepError as error:
        return {"error": [type(error).__name__]}
    return {name: sorted(map(repr, run.changes(name))) for name in case.flow.graph.outputs}


def _refuse(run: Run, case: WindowCase, time: int, dice: random.Random) -> None:
    """Have a step refused that has some updates of this time, and others."""
    for name, updates in case.updates.items():
        some = [(row, time, diff) for row, _, diff in updates if diff > 0 and dice.random() < 0.5]  # noqa: PLR2004
        run.update(name, some)
    run.insert("x", [dice.choice(case.spoilt)], time=time)
    try:
        run.advance_to(time + 1)
    except StepError:
        run.discard()
    else:
        msg = "a step was taken that divides by nothing"
        raise AssertionError(msg)
    if dice.random() < 0.3:  # noqa: PLR2004
        run.compact()
