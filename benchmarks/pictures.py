"""How long pictures take: ``python -m benchmarks.pictures [--json FILE]``. Needs playwright and a Chromium.

The SVG of dataflows of 100 and 1,000 operators, in processor time; and the explorer's page of a run of 1,000 operators
with 10,000 operator events on record, in headless Chromium: until it is drawn, and from one closed time to the next.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from benchmarks.machine import machine

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from browser import browser
from pictures import large

STEPPING = """() => { const took = []; for (let i = 0; i < explorer.moments.length; i++) {
    const t = performance.now(); explorer.goTo(i); document.body.getBoundingClientRect();
    took.push(performance.now() - t); } return took; }"""


def drawing(count: int) -> dict[str, Any]:
    """Return what the SVG of so many operators takes."""
    flow, taken = large(count), []
    for _ in range(5):
        start = process_time()
        flow.to_svg()
        taken.append(process_time() - start)
    return {"operators": len(flow.graph.nodes), "svg_ms": round(1e3 * statistics.median(taken), 1)}


def exploring(events: int) -> dict[str, Any]:
    """Return what the explorer's page of 1,000 operators takes."""
    flow = large(1000)
    run = flow.start(passes=False)
    run.log_events()
    while sum(len(e.operators) for e in run.events) < events:
        for name in flow.graph.inputs:
            run.insert(name, [(len(run.events) % 7 + 1000,)])
        run.advance()
    page_text, opening, steps = run.to_html(), [], []
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        path = Path(folder) / "page.html"
        path.write_text(page_text, encoding="utf-8")
        for _ in range(5):
            page = chromium.new_page()
            start = perf_counter()
            page.goto(path.as_uri())
            page.wait_for_function("document.querySelectorAll('.operator').length >= 1000")
            opening.append(perf_counter() - start)
            steps += page.evaluate(STEPPING)
            page.close()
    return {
        "events": events,
        "page_kb": len(page_text) // 1000,
        "open_s": round(statistics.median(opening), 2),
        "step_ms": {"median": round(statistics.median(steps), 1), "p90": round(sorted(steps)[len(steps) * 9 // 10], 1),
                    "max": round(max(steps), 1)},
    }  # fmt: skip


def main() -> None:
    """Measure, print, and write JSON where told to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pictures", description="How long pictures take.")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report = {"machine": machine(), "pictures": [drawing(100), drawing(1000)], "explorer": exploring(10_000)}
    print(json.dumps(report, indent=1))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
