"""What the demo shows: a progress bar while it works, and then tables. Plain text where nobody looks at a terminal."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tidemill.demo.check import Check
from tidemill.demo.data import Data, date_of
from tidemill.demo.flow import STORY
from tidemill.demo.play import Played

FINDINGS: Final = ("weather", "routes", "lengths", "longest", "inherited", "rolling")
"""The outputs whose contents are shown in the end."""

WIDTH: Final = 80
"""Of the output where it does not go to a terminal, which would say how wide it is."""

_TOTALS: Final = ("carriers", "aircraft", "weather")
_CHAINS: Final = ("chains", "lengths", "longest")
_SKIES: Final = ("fair", "wind", "rain", "fog")

EPOCHS_TEXT: Final = """\
Each line is an epoch: a day's flights came in, or a correction. Late reports are flights the history lacked; other \
delays are changes, one of which has a flight of the longest chain leave on time; in the end these and the \
cancellations are withdrawn. Longest is the longest chain of late departures: its length, and the aircraft that flew \
it, or how many did."""

TIMES_TEXT: Final = """\
Totals (delays by carrier, aircraft and weather), routes (the worst) and chains count the rows of the results that \
were put in or taken out. The time, in ms, is from handing the flights in to having read these changes. After {anew} \
of the {played} epochs everything was computed anew from all flights so far, and compared: by the same dataflow from \
scratch, and by DuckDB (threads: {threads})."""

AT_ONCE_TEXT: Final = """\
In the end Spark was given the history and all epochs at once, as DataFrames with their times (tm.render), and its \
updates of all results were compared with the changes above, time by time: {seconds:,.0f} s."""

CHAINS_TEXT: Final = """\
A departure is late from 15 minutes on. It continues a chain if the same aircraft's departure from New York before it, \
on that day or the day before, was late too. Chains: {lengths}."""


INHERITED_TEXT: Final = """\
Of {all:,} late departures of known aircraft {late:,} followed a late leg of the same aircraft on that day, \
{on_time:,} one on time, and {first:,} were its first."""


class Report:
    """Prints to one stream, and shows progress on another."""

    def __init__(self, out: TextIO, progress: TextIO) -> None:
        terminal = out.isatty()
        self._out = Console(file=out, width=None if terminal else WIDTH, highlight=False, emoji=False)
        self._progress = Console(file=progress)

    def read(self, data: Data, seconds: float) -> None:
        """Say what was read."""
        sizes = {name: f"{len(table):,}" for name, table in data.dimensions.items()}
        self._line("tidemill demo: New York's flights of 2013, kept up to date", style="bold")
        self._line(
            f"read {len(data.flights):,} flights, {sizes['planes']} planes, {sizes['airports']} airports, "
            f"{sizes['airlines']} airlines and {sizes['weather']} hours of weather in {seconds:.1f} s"
        )

    @contextmanager
    def progress(self, steps: int) -> Iterator[Callable[[str], None]]:
        """Show a bar of so many steps while the block runs; it is given what to call as each begins."""
        if not self._progress.is_terminal:
            yield lambda _: None
            return
        columns = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._progress, transient=True, redirect_stdout=False) as bar:
            task = bar.add_task("", total=steps)
            begun = iter(range(steps))
            yield lambda what: bar.update(task, description=what, completed=next(begun, steps))

    def epochs(self, engine: str, loaded: Played, played: Sequence[Played], anew: int, threads: int) -> None:
        """Show the epochs as a table, what it means, and what it amounts to."""
        table = Table(box=SIMPLE_HEAD, padding=0, title=f"Kept up to date by {engine}", title_justify="left")
        for name in ("epoch", "flights", "totals", "routes", "chains", "longest", "ms", "scratch", "DuckDB"):
            table.add_column(name, justify="left" if name in ("epoch", "longest") else "right", no_wrap=True)
        for one in (loaded, *played):
            table.add_row(*_epoch(one), end_section=one is loaded)
        self._out.print(table)
        self._text(EPOCHS_TEXT)
        self._text(TIMES_TEXT.format(anew=anew, played=len(played), threads=threads))
        self._text(_medians(played))

    def at_once(self, seconds: float) -> None:
        """Say what Spark took for all epochs at once."""
        self._text(AT_ONCE_TEXT.format(seconds=seconds))

    def findings(self, results: Mapping[str, list[tuple[Any, ...]]]) -> None:
        """Show the results as they are in the end."""
        self._sky(results["weather"])
        self._routes(results["routes"])
        lengths = ", ".join(f"{n:,} of {length}" for length, n in sorted(results["lengths"]))
        self._text(CHAINS_TEXT.format(lengths=lengths))
        self._longest([dict(zip(STORY, row, strict=True)) for row in results["longest"]])
        self._windows(results["inherited"], results["rolling"])

    def check(self, check: Check, seconds: float) -> None:
        """Say in the last line whether all results were right."""
        for difference in check.differences:
            self._line(f"WRONG: {difference}", style="bold red")
        self._line(f"{seconds:.1f} s in all")
        self._line(check.last_line(), style="bold green" if check.passed else "bold red")

    def _sky(self, rows: Sequence[tuple[Any, ...]]) -> None:
        mean = {(origin, sky): delay for origin, sky, _, _, _, delay in rows}
        table = Table("", *_SKIES, title="Mean delay at departure, in minutes", box=SIMPLE_HEAD, title_justify="left")
        for origin in sorted({origin for origin, _ in mean}):
            table.add_row(origin, *(_minutes(mean.get((origin, sky))) for sky in _SKIES))
        self._out.print(table)

    def _routes(self, rows: Sequence[tuple[Any, ...]]) -> None:
        table = Table("from", "to", box=SIMPLE_HEAD, title="The routes that arrive latest", title_justify="left")
        table.add_column("flights", justify="right")
        table.add_column("minutes late", justify="right")
        for origin, to, flights, delay in _latest(rows, 2):
            table.add_row(origin, to, f"{flights:,}", _minutes(delay))
        self._out.print(table)

    def _longest(self, flights: Sequence[Mapping[str, Any]]) -> None:
        if not flights:
            self._line("No departure was late.")
            return
        chain = flights[0]["chain"]
        one = sorted((f for f in flights if f["chain"] == chain), key=lambda f: f["length"])
        last, others = one[-1], len({f["chain"] for f in flights}) - 1
        also = f" ({others} more are as long)" if others else ""
        self._line(f"The longest chain: {last['length']} late departures in a row{also}", style="bold")
        plane = [f for f in (last["manufacturer"], last["model"], last["airline"]) if f]
        self._line(f"flown by {', '.join([last['tailnum'], *plane])}")
        table = Table("", "scheduled", "flight", "from", "to", "late by", box=SIMPLE_HEAD)
        for f in one:
            hours, minutes = divmod(f["sched_dep_time"], 100)
            when = f"{date_of(f['day']):%a %d %b} {hours:02}:{minutes:02}"
            flight = f"{f['carrier']} {f['flight']}"
            table.add_row(str(f["length"]), when, flight, f["origin"], f["dest"], f"{f['dep_delay']} min")
        self._out.print(table)

    def _windows(self, inherited: Sequence[tuple[Any, ...]], rolling: Sequence[tuple[Any, ...]]) -> None:
        late, on_time, first = (sum(row[i] for row in inherited) for i in (1, 2, 3))
        text = INHERITED_TEXT.format(all=late + on_time + first, late=late, on_time=on_time, first=first)
        if weeks := [row for row in rolling if row[2] is not None]:
            origin, day, mean = max(weeks, key=lambda row: (row[2], row[0]))
            text += f" Worst week: {origin}'s to {date_of(day):%a %d %b}, {_minutes(mean)} minutes late on average."
        self._text(text)

    def _line(self, text: str, style: str = "") -> None:
        self._out.print(text, style=style, markup=False, soft_wrap=True)

    def _text(self, text: str) -> None:
        self._out.print(text, markup=False)
        self._out.print()


def _latest(rows: Sequence[tuple[Any, ...]], each: int) -> list[tuple[Any, ...]]:
    """Return so many routes from each airport, the latest first."""
    by_delay = sorted(rows, key=lambda r: (r[0], -r[3], r[1]))
    return [row for _, routes in itertools.groupby(by_delay, key=lambda r: r[0]) for row in list(routes)[:each]]


def _epoch(one: Played) -> tuple[str, ...]:
    flights = [f"{sign}{n:,}" for sign, n in (("+", one.inserted), ("-", one.deleted)) if n]
    return (
        one.label,
        " ".join(flights),
        f"{sum(one.changed[name] for name in _TOTALS):,}",
        f"{one.changed['routes']:,}",
        f"{sum(one.changed[name] for name in _CHAINS):,}",
        _chain(one.longest),
        *("" if s is None else f"{s * 1000:,.0f}" for s in (one.seconds, one.scratch, one.duckdb)),
    )


def _chain(longest: Sequence[tuple[Any, ...]]) -> str:
    if not longest:
        return "none"
    aircraft = {row[STORY.index("tailnum")] for row in longest}
    length = max(row[STORY.index("length")] for row in longest)
    return f"{length} {min(aircraft)}" if len(aircraft) == 1 else f"{length} by {len(aircraft)}"


def _medians(played: Sequence[Played]) -> str:
    here = statistics.median(p.seconds for p in played)
    scratch = statistics.median(p.scratch for p in played if p.scratch is not None)
    duckdb = statistics.median(p.duckdb for p in played if p.duckdb is not None)
    return (
        f"Medians: {here * 1000:,.0f} ms for an epoch; {scratch * 1000:,.0f} ms for the same dataflow from scratch, "
        f"{_times(scratch / here)}; {duckdb * 1000:,.0f} ms for DuckDB, {_times(duckdb / here)}."
    )


def _times(ratio: float) -> str:
    return f"{ratio:,.{0 if ratio > 2 else 1}f} times as long"  # noqa: PLR2004 - small ratios need a decimal


def _minutes(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
