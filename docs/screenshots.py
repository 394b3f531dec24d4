"""Take the pictures of the explorer for docs and notebooks: ``python docs/screenshots.py``, with Chromium."""

from __future__ import annotations

import json
import linecache
import shutil
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import sync_playwright

import tidemill as tm

PICTURES: Final = Path(__file__).parent / "pictures"


def reachable() -> tm.Dataflow:
    """Return the airports that can be reached from some."""
    flow = tm.Dataflow("routes")
    flights = flow.input("flights", {"origin": "string", "dest": "string"})
    start = flow.input("start", {"airport": "string"})

    def one_more_leg(here: tm.Collection) -> tm.Collection:
        legs = here.join(flights, on={"airport": "origin"}).select(airport="dest")
        return legs.concat(start).distinct()

    flow.output("reachable", start.iterate(one_more_leg))
    return flow


def components() -> tm.Run:
    """Return a run of a loop in a loop: edges of which both ends have the same label, again and again."""
    flow = tm.Dataflow("components")
    edges = flow.input("edges", {"src": "int64", "dst": "int64"})

    def trim(kept: tm.Collection) -> tm.Collection:
        nodes = kept.select(node="src", label="src").distinct()

        def propagate(labels: tm.Collection) -> tm.Collection:
            moved = labels.join(kept, on={"node": "src"}).select(node="dst", label="label")
            return moved.concat(nodes).group_by("node").agg(label=tm.min("label"))

        labels = nodes.iterate(propagate, name="propagate")
        ends = kept.join(labels, on={"src": "node"}).join(labels, on={"dst": "node"})
        return ends.filter("label = label_right").select("src", "dst").distinct()

    flow.output("within", edges.distinct().iterate(trim, name="trim"))
    run = flow.start()
    run.log_events()
    run.insert("edges", [(i, (i * 7 + 1) % 20) for i in range(20)] + [(i, i + 1) for i in range(12)])
    run.advance()
    run.insert("edges", [(12, 0)])
    run.advance()
    return run


def stuck() -> tm.Run:
    """Return a run in which one input is behind."""
    flow = tm.Dataflow("orders")
    orders = flow.input("orders", {"customer": "int64", "amount": "int64"})
    customers = flow.input("customers", {"customer": "int64", "name": "string"})
    named = orders.filter("amount > 0").join(customers, on="customer")
    flow.output("by_name", named.group_by("name").agg(total=tm.sum("amount")))
    flow.output("totals", orders.group_by("customer").agg(total=tm.sum("amount")))
    run = flow.start()
    run.log_events()
    run.insert("orders", [(i % 5, i) for i in range(50)])
    run.insert("customers", [(i, f"customer {i}") for i in range(5)])
    run.advance()
    run.insert("orders", [(1, 3)])
    run.advance_to(4, input="orders")
    return run


def flights() -> tm.Run:
    """Return a run of the demo's pipeline, of its text as a user's file."""
    from tidemill.demo import flow  # noqa: PLC0415 - its text alone

    names: dict[str, Any] = {}
    text = Path(flow.__file__).read_text(encoding="utf-8")
    linecache.cache["flights.py"] = (len(text), None, text.splitlines(keepends=True), "flights.py")
    exec(compile(text, "flights.py", "exec"), names)  # noqa: S102 - our own demo
    run: tm.Run = names["build"]().start()
    hours = [datetime(2013, 1, 1 + i % 20, 5 + i % 15) for i in range(400)]  # noqa: DTZ001 - times are of no zone
    run.insert("flights", [
        {
            "id": i, "month": 1, "day": hour.day, "time_hour": hour, "scheduled": hour, "sched_dep_time": 500,
            "carrier": ("AA", "UA", "DL")[i % 3], "flight": i % 50, "tailnum": f"N{i % 30}", "origin": "JFK",
            "dest": ("LAX", "SFO")[i % 2], "dep_delay": i * 7 % 40, "arr_delay": i * 5 % 50,
        }
        for i, hour in enumerate(hours)
    ])  # fmt: skip
    run.insert("airlines", [("AA", "American"), ("UA", "United"), ("DL", "Delta")])
    run.insert("planes", [(f"N{i}", 2000 + i % 13, "BOEING", "737") for i in range(30)])
    run.insert("airports", [("LAX", "Los Angeles"), ("SFO", "San Francisco")])
    run.advance()
    return run


def needed() -> tm.Why:
    """Return why a package is needed: the answer of docs/why.md."""
    flow = tm.Dataflow("packages")
    depends = flow.input("depends", {"package": "string", "on": "string"})
    wanted = flow.input("wanted", {"package": "string"})

    def one_more_step(n: tm.Collection) -> tm.Collection:
        return n.join(depends, on="package").select(package="on").concat(wanted).distinct()

    flow.output("needed", wanted.iterate(one_more_step))
    run = flow.start(why=True)
    run.insert("wanted", [("gnome",)])
    run.insert("depends", [("gnome", "gnome-shell"), ("gnome-shell", "libc6"), ("bash", "libc6")])
    run.advance()
    return run.why("needed", ("libc6",))


def in_notebook() -> tm.Run:
    """Return the run that notebooks/2-recursion.ipynb explores."""
    path = PICTURES.parents[1] / "notebooks" / "2-recursion.ipynb"
    names: dict[str, Any] = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if source == "run.explore()":
            run: tm.Run = names["run"]
            return run
        if cell["cell_type"] == "code":
            exec(compile(source, path.name, "exec"), names)  # noqa: S102 - our own notebook
    msg = f"{path.name} has no cell run.explore()"
    raise AssertionError(msg)


def main() -> None:
    """Write all pictures."""
    (PICTURES / "flow.svg").write_text(reachable().to_svg(), encoding="utf-8")
    (PICTURES / "why.svg").write_text(needed().to_svg(), encoding="utf-8")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])

        def opened(run: tm.Run, width: int, height: int) -> Any:
            path = Path(folder) / "page.html"
            path.write_text(run.to_html(), encoding="utf-8")
            page = browser.new_page(viewport={"width": width, "height": height}, reduced_motion="reduce")
            page.goto(path.as_uri())
            page.wait_for_function("explorer !== null")
            return page

        def choose(page: Any, run: tm.Run, kind: str, then: str) -> None:
            page.evaluate(f"{then}; explorer.reveal({next(n.id for n in run.graph.nodes if n.kind == kind)})")

        run = components()
        page = opened(run, 1200, 900)
        loops = "[...explorer.tree.groups.values()].filter(g => g.kind === 'loop' && !explorer.tree.open.has(g.id))"
        page.evaluate(f"for (const g of {loops}) explorer.toggle(g.id); explorer.picture.redraw()")
        choose(page, run, "Join", "explorer.goTo(1, 5); explorer.picture.zoom(0.75 / explorer.picture.scale())")
        page.screenshot(path=PICTURES / "explorer.png")
        page = opened(stuck(), 1200, 700)
        page.screenshot(path=PICTURES / "explorer-stuck.png")
        page = opened(flights(), 1280, 760)
        page.screenshot(path=PICTURES / "explorer-boxes.png")
        run = in_notebook()
        page = opened(run, 1200, 700)
        choose(page, run, "Threshold", "explorer.goTo(1, 1)")
        page.screenshot(path=PICTURES / "explorer-notebook.png")
        browser.close()


if __name__ == "__main__":
    main()
