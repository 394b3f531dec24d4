"""The explorer's page in a headless Chromium: how long it takes to open, to step, to pan.

``python -m benchmarks.page``. The dataflow is the large one of the tests, its operators as the engine runs them; events
are what operators did in steps that are on record, which are gone through again and again. Times are of the page's own
clock: until a step is laid out and styled, which is all but the painting, and between the frames of a drag; what
opening and a step took of a processor is said too, which others at work on the machine do not change.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tidemill as tm

STEPS = """async () => {
    const found = [];
    const last = explorer.moments.length - 1;
    for (let i = 0; i < 100; i++) {
        await new Promise(requestAnimationFrame);
        const begun = performance.now();
        explorer.goTo(i % last);
        document.body.offsetHeight;
        found.push(performance.now() - begun);
    }
    return found;
}"""
PAINTED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
FRAMES = """() => new Promise((done) => {
    const found = [];
    let before = null;
    const on = (now) => {
        if (before !== null) found.push(now - before);
        before = now;
        if (found.length < 120) requestAnimationFrame(on); else done(found);
    };
    requestAnimationFrame(on);
})"""


def large_run(operators: int, events: int) -> tm.Run:
    """Return a run of about so many operators with so many events."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "lib"))
    from support.pictures import large  # noqa: PLC0415 - of the tests

    wanted = operators
    while True:
        flow = large(wanted)
        run = flow.start()
        if len(run.graph.nodes) >= operators:
            break
        wanted += operators // 10
    run.log_events(limit=events)
    logged, epoch = 0, 0
    while logged < events:
        for name in flow.graph.inputs:
            run.insert(name, [(1000 + 10 * epoch + int(name[2:]),)])
        run.advance()
        logged += len(run.events[-1].operators)
        epoch += 1
    return run


def measured(page: Any, path: Path) -> dict[str, Any]:
    """Return what a page takes."""
    page.goto("about:blank")
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    begun = time.perf_counter()
    page.goto(path.as_uri())
    page.wait_for_function("explorer !== null")
    page.evaluate(PAINTED)
    opened = time.perf_counter() - begun
    used = {m["name"]: m["value"] for m in devtools.send("Performance.getMetrics")["metrics"]}
    found: dict[str, Any] = {"open_s": round(opened, 3), "open_processor_s": round(used["TaskDuration"], 3)}
    found |= {"boxes_at_first": page.locator(".operator").count()}
    found |= _steps(page, "step")
    found |= _pan(page, "pan")
    page.evaluate(f"explorer.openAll(); {PAINTED}")
    found["boxes_when_all_are_open"] = page.locator(".operator").count()
    found |= _steps(page, "step_all_open")
    page.evaluate("explorer.fit()")
    return found | _pan(page, "pan_all_open")


def _pan(page: Any, name: str) -> dict[str, float]:
    page.mouse.move(500, 400)
    page.mouse.down()
    page.evaluate(f"window.frames_ = ({FRAMES})(); 0")
    for i in range(120):
        page.mouse.move(500 + i % 60 * 4, 400 + i % 40 * 3)
    frames = page.evaluate("window.frames_")
    page.mouse.up()
    return {
        f"{name}_frames_per_s": round(1000 / _quantile(frames, 0.5), 1),
        f"{name}_longest_frame_ms": round(max(frames), 1),
    }


def _steps(page: Any, name: str) -> dict[str, float]:
    page.context.browser.start_tracing(page=page, categories=["devtools.timeline"])
    taken = page.evaluate(STEPS)
    events = json.loads(page.context.browser.stop_tracing())["traceEvents"]
    used = sorted(e["tdur"] / 1000 for e in events if e["name"] == "FireAnimationFrame" and "tdur" in e)
    used = used[-len(taken) :]  # the others only move the picture
    return {
        f"{name}_median_ms": round(_quantile(taken, 0.5), 1),
        f"{name}_p90_ms": round(_quantile(taken, 0.9), 1),
        f"{name}_most_ms": round(max(taken), 1),
        f"{name}_processor_p90_ms": round(_quantile(used, 0.9), 1),
        f"{name}_processor_most_ms": round(max(used), 1),
    }


def _quantile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operators", type=int, default=1000)
    parser.add_argument("--events", type=int, default=10_000)
    given = parser.parse_args()
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - for this benchmark alone

    run = large_run(given.operators, given.events)
    html = run.to_html()
    code = tm.Dataflow("empty").to_html()
    found = {
        "operators": len(run.graph.nodes),
        "events": sum(len(e.operators) for e in run.events),
        "steps": len(run.events),
        "page_kB": round(len(html.encode()) / 1000),
        "page_without_data_kB": round(len(code.encode()) / 1000),
    }
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(html, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        found |= measured(page, path)
        browser.close()
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
