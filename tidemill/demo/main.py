"""The demo from beginning to end."""

from __future__ import annotations

import os
import sys
import time
from typing import Final

import attrs

from tidemill.demo import data, flow, play, report, script
from tidemill.flow import local_spark
from tidemill.renderer.runs.run import Engine
from tidemill.renderer.spark.live import Spark

ENGINES: Final = {
    "embedded": "the embedded engine",
    "reference": "the reference engine",
    "spark": "a run beside Spark (tm.Spark)",
}
"""What can keep the results up to date, and how that is called."""
SESSION: Final = {
    "spark.driver.memory": "2g",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

REFERENCE_FLIGHTS = 10_000
"""So many flights the reference engine can be asked to take: it evaluates everything at every time."""


@attrs.frozen
class Options:
    """What can be asked of the demo: the first day played, how many, how many before it are loaded, and the rest."""

    start: int
    days: int
    history: int
    seed: int
    recompute: int
    engine: str


def run(options: Options) -> int:
    """Run the demo and return 0 if its check of itself passed, 1 otherwise."""
    began = time.perf_counter()
    shown = report.Report(sys.stdout, sys.stderr)
    year = data.load()
    shown.read(year, time.perf_counter() - began)
    acts = script.Script(year, start=options.start, history=options.history, days=options.days, seed=options.seed)
    engine = _engine(options, len(acts.history))
    stage = play.Play(flow.build(), year, acts, engine, options.recompute)
    at_once = None
    try:
        with shown.progress(1 + len(stage.epochs) + len(stage.anew) + isinstance(engine, Spark)) as step:
            step("loading the history")
            loaded = stage.load()
            played = list(stage.play(loaded, step))
            if isinstance(engine, Spark):
                step("all epochs at once")
                at_once = stage.check_history(engine.spark)
        stage.check_changes()
        shown.epochs(ENGINES[options.engine], loaded, played, len(stage.anew), stage.threads)
        if at_once is not None:
            shown.at_once(at_once)
        shown.findings({name: stage.result(name) for name in report.FINDINGS})
        shown.check(stage.check, time.perf_counter() - began)
    finally:
        stage.close()
    return 0 if stage.check.passed else 1


def _engine(options: Options, flights: int) -> Engine | None:
    """Return the engine that keeps the results up to date; what is computed anew is always on the embedded one."""
    if options.engine == "embedded":
        return None
    if options.engine == "spark":
        return Spark(local_spark(**SESSION))
    from tidemill.renderer.reference import Reference  # noqa: PLC0415 - for those who ask for it

    if flights > REFERENCE_FLIGHTS:
        msg = (
            f"the reference engine evaluates everything at every time, which for {flights:,} flights takes hours: "
            "ask for less, as in --history 3 --days 2"
        )
        raise data.DemoError(msg)
    return Reference()
