"""The command for long runs: ``python -m tidemill.testing [--cases N] [--coordinates 1 2 3] [--engines ...]``.

Draws random dataflows with updates until so many have agreed on all engines and batchings, counts them, and stops with
the shrunk case at the first that does not agree.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tidemill.testing import all_at_once, check_equivalent, dataflows, shuffled, time_by_time
from tidemill.testing.random_flows import Case

CHUNK = 250
"""Cases drawn from one seed; Hypothesis remembers what it has drawn, so many short rounds stay quick."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 0, or 1 when a case disagreed."""
    options = _parser().parse_args(arguments)
    began = time.perf_counter()
    done = dict.fromkeys(options.coordinates, 0)
    source = options.seed
    while sum(done.values()) < options.cases:
        for coordinates in options.coordinates:
            wanted = min(CHUNK, options.cases - sum(done.values()))
            if not wanted:
                break
            try:
                done[coordinates] += _chunk(options, coordinates, source, wanted)
            except AssertionError as error:
                print(f"disagreement, coordinates {coordinates}, seed {source}: {error}", file=sys.stderr)  # noqa: T201
                print("\n".join(getattr(error, "__notes__", ())), file=sys.stderr)  # noqa: T201
                return 1
            source += 1
        print(_told(done, time.perf_counter() - began), flush=True)  # noqa: T201
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tidemill.testing", description="Random dataflows on all engines.")
    parser.add_argument("--cases", type=int, default=1000, help="how many to draw in all (1000)")
    parser.add_argument("--coordinates", type=int, nargs="+", default=[1, 2, 3], help="user times to draw (1 2 3)")
    parser.add_argument("--engines", default="reference,embedded", help="separated by commas")
    parser.add_argument("--passes", action="store_true", help="run graphs as all passes leave them, not as built")
    parser.add_argument("--max-operators", type=int, default=6, help="operators in a dataflow, at most (6)")
    parser.add_argument("--seed", type=int, default=0, help="where to start; each 250 cases take the next (0)")
    return parser


def _chunk(options: argparse.Namespace, coordinates: int, source: int, wanted: int) -> int:
    """Draw so many cases and compare; return how many were compared."""
    compared = 0

    def compare(case: Case, batching: int) -> None:
        nonlocal compared
        plans = [all_at_once, time_by_time, shuffled(batching), shuffled(batching + 1)]
        check_equivalent(
            case.flow, case.updates, engines=options.engines.split(","), batchings=plans, passes=options.passes
        )
        compared += 1

    drawn = given(case=dataflows(coordinates, max_operators=options.max_operators), batching=st.integers(0, 1000))
    quietly = settings(
        max_examples=wanted,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    test: Callable[[], None] = seed(source)(quietly(drawn(compare)))
    test()
    return compared


def _told(done: dict[int, int], seconds: float) -> str:
    each = ", ".join(
        f"{cases:,} with {coordinates} coordinate{'s'[: coordinates > 1]}" for coordinates, cases in done.items()
    )
    return f"{sum(done.values()):,} cases agree ({each}) after {seconds:,.0f} s"


if __name__ == "__main__":
    sys.exit(main())
