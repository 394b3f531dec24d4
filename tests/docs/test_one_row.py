"""The picture of README's first screen shows what happened in a step, moves by itself, and stands still when asked to."""

import importlib.util
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import tidemill as tm

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "pictures" / "one-row.svg"
SVG = "{http://www.w3.org/2000/svg}"


def script() -> Any:
    spec: Any = importlib.util.spec_from_file_location("one_row", ROOT / "docs" / "one_row.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def classes(root, tag, *, of=r"(work|stop|answer)"):
    return [found[1] for e in root.iter(SVG + tag) if (found := re.match(of, e.get("class", "")))]


def test_what_had_work_is_lit_and_the_way_ends_where_nothing_goes_on():
    flow = tm.Dataflow()
    x = flow.input("x", {"k": "string", "v": "int64"})
    flow.output("all", x.distinct())
    flow.output("many", x.group_by("k").agg(n=tm.count()).filter("n > 5"))
    flow.output("both", x.filter("v > 5").concat(x))  # reads from what sends nothing, and from what does
    flow.output("others", flow.input("y", {"v": "int64"}).distinct())
    one_row = script()
    with flow.start() as run:
        run.log_events(rows=0)
        run.insert("x", [("a", 1)])
        run.advance()
        work = {i: (w.records_in, w.records_out) for i, w in run.events[-1].operators.items()}
        reads = {n.id: [i.id for i in n.inputs] for n in run.graph.nodes}
        names = {n.id: name for name, n in run.graph.outputs.items()}
        step = one_row.Step(reads, names, work, "A row", 1)
    root = ET.fromstring(one_row.picture(step))
    lit = classes(root, "circle")
    assert len(lit) == len(work) < len(reads)
    assert lit.count("answer") == 2
    assert [e.text for e in root.iter(SVG + "text") if e.get("class", "").startswith("answer")] == ["all", "both"]
    assert lit.count("stop") == sum(not out and node not in names for node, (_, out) in work.items()) == 2
    (way,) = (e for e in root.iter(SVG + "g") if e.get("class") == "way")
    went_on = {node for node, (_, out) in work.items() if out}
    dark = [
        (i, node) for node, inputs in reads.items() for i in inputs if {i, node} <= work.keys() and i not in went_on
    ]
    assert len(dark) == 1
    assert len(way) == sum(i in went_on and node in work for node, inputs in reads.items() for i in inputs)


def test_the_picture_that_is_kept_moves_only_for_readers_who_did_not_ask_for_less_motion():
    text = PICTURE.read_text()
    root = ET.fromstring(text)
    before, media, moving = text.partition("@media (prefers-reduced-motion:no-preference){")
    assert media
    assert "animation-name" not in before
    assert "@keyframes" in moving
    assert not re.search(r"https?:(?!//www\.w3\.org/2000/svg)|<script|@import", text)
    assert len(text) < 60_000
    assert int(root.attrib["height"]) <= 350, "on the first screen there is more"
    assert classes(root, "circle").count("answer") >= 1


def test_the_words_for_who_does_not_see_it_are_those_of_the_picture():
    root = ET.fromstring(PICTURE.read_text())
    shown = " ".join(e.text or "" for e in root.iter(SVG + "text"))
    queries, operators, rows, working, touched, answers = re.search(
        r"(\d+) queries, (\d+) operators, ([\d,]+) rows\. (\d+) operators work, on (\d+) rows; (\d+) answers change",
        shown,
    ).groups()
    assert len(classes(root, "circle")) == int(working)
    said = (
        f"![All {queries} queries of TPC-H as one graph of {operators} operators over {rows} rows. One line item changes: "
        f"{working} operators work, on {touched} rows, and two answers change.]"
    )
    assert answers == "2"
    for page in (ROOT / "README.md", ROOT / "docs" / "index.md"):
        assert said in page.read_text(), page
