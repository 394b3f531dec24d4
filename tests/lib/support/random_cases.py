"""The command for long runs: ``PYTHONPATH=tests/lib python -m support.random_cases [--cases N] [--draw dataflows | windows | on-close] ...``.

Draws random cases until so many have agreed on all engines and batchings, counts them, and stops with the shrunk case
at the first that does not agree: whole dataflows; or windows in each of the ways in which the embedded engine keeps
them up to date, with limits so low that a few rows are many; or windows that are given on close.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from support.window_cases import WindowCase, compare_on_close, compare_windows, on_close, windows

from tidemill.errors import EmptyFrameWarning
from tidemill.testing import all_at_once, check_equivalent, dataflows, shuffled, time_by_time
from tidemill.testing.random_flows import Case

CHUNK = 250
"""Cases drawn from one seed; Hypothesis remembers what it has drawn, so many short rounds stay quick."""

WINDOWS = {"windows": (windows, compare_windows), "on-close": (on_close, compare_on_close)}
"""What is drawn at times of one coordinate only, and how each case is compared."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 0, or 1 when a case disagreed."""
    options = _parser().parse_args(arguments)
    began = time.perf_counter()
    if options.draw in WINDOWS:
        options.coordinates = [1]
    done = {coordinates: Counter[str](cases=0) for coordinates in options.coordinates}
    source = options.seed
    while (left := options.cases - _cases(done)) > 0:
        for coordinates in options.coordinates:
            wanted = min(CHUNK, left)
            if not wanted:
                break
            try:
                done[coordinates] += _chunk(options, coordinates, source, wanted)
            except AssertionError as error:
                print(f"disagreement, coordinates {coordinates}, seed {source}: {error}", file=sys.stderr)  # noqa: T201
                print("\n".join(getattr(error, "__notes__", ())), file=sys.stderr)  # noqa: T201
                return 1
            left -= wanted
            source += 1
        told = _told_windows(done[1]) if options.draw in WINDOWS else _told(done)
        print(f"{_cases(done):,} cases agree ({told}) after {time.perf_counter() - began:,.0f} s", flush=True)  # noqa: T201
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="random_cases", description="Random cases on all engines.")
    parser.add_argument("--cases", type=int, default=1000, help="how many to draw in all (1000)")
    parser.add_argument("--draw", choices=["dataflows", *WINDOWS], default="dataflows", help="of what (dataflows)")
    parser.add_argument("--coordinates", type=int, nargs="+", default=[1, 2, 3], help="user times to draw (1 2 3)")
    parser.add_argument("--engines", default="reference,embedded", help="separated by commas")
    parser.add_argument("--passes", action="store_true", help="run graphs as all passes leave them, not as built")
    parser.add_argument("--max-operators", type=int, default=6, help="operators in a dataflow, at most (6)")
    parser.add_argument("--seed", type=int, default=0, help="where to start; each 250 cases take the next (0)")
    return parser


def _chunk(options: argparse.Namespace, coordinates: int, source: int, wanted: int) -> Counter[str]:
    """Draw so many cases and compare; return how many were compared, and what they had."""
    compared = Counter[str]()
    engines = options.engines.split(",")

    def compare(case: Case, batching: int) -> None:
        plans = [all_at_once, time_by_time, shuffled(batching), shuffled(batching + 1)]
        check_equivalent(case.flow, case.updates, engines=engines, batchings=plans, passes=options.passes)
        compared["cases"] += 1

    def compare_case(case: WindowCase) -> None:
        compared.update(WINDOWS[options.draw][1](case, engines))

    if options.draw in WINDOWS:
        drawn = given(case=WINDOWS[options.draw][0]())(compare_case)
    else:
        flows = dataflows(coordinates, max_operators=options.max_operators)
        drawn = given(case=flows, batching=st.integers(0, 1000))(compare)
    quietly = settings(
        max_examples=wanted,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    test: Callable[[], None] = seed(source)(quietly(drawn))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyFrameWarning)  # such frames are drawn, too
        test()
    return compared


def _cases(done: dict[int, Counter[str]]) -> int:
    return sum(had["cases"] for had in done.values())


def _told(done: dict[int, Counter[str]]) -> str:
    return ", ".join(
        f"{had['cases']:,} with {coordinates} coordinate{'s'[: coordinates > 1]}" for coordinates, had in done.items()
    )


def _told_windows(had: Counter[str]) -> str:
    return ", ".join(f"{what}: {count:,}" for what, count in had.items() if what != "cases" and count)


if __name__ == "__main__":
    sys.exit(main())
