"""Pictures as text: SVG of a dozen dataflows as it was looked at and kept, Mermaid, DOT, and what notebooks are given.

``TIDEMILL_WRITE=1 pytest tests/diagram`` writes the pictures anew: look at them before you keep them.
"""

import base64
import os
import re
from pathlib import Path

import pytest
from support.pictures import FLOWS, boxes_of, elements

import tidemill as tm

KEPT = Path(__file__).parent / "pictures"


def without_places(svg):
    """A picture without the lines of this project's files that it names, which move."""
    return re.sub(r"pictures\.py:\d+", "pictures.py", svg)


@pytest.mark.parametrize("name", FLOWS)
def test_the_picture_is_the_one_that_was_looked_at(name):
    made = without_places(FLOWS[name]().to_svg())
    path = KEPT / f"{name}.svg"
    if os.environ.get("TIDEMILL_WRITE"):
        path.write_text(made, encoding="utf-8")
    assert made == path.read_text(encoding="utf-8")


def flights():
    flow = FLOWS["reachability"]()
    run = flow.start()
    run.insert("flights", [("JFK", "LAX", 1), ("LAX", "SFO", 2), ("BOS", "JFK", 3)])
    run.insert("start", [("JFK",)])
    run.advance()
    return flow, run


def texts(svg):
    return [text for tag, _, text in elements(svg) if tag == "text"]


def test_a_flows_picture_has_names_kinds_columns_and_lines():
    flow, _ = flights()
    shown = texts(flow.to_svg())
    assert {"flights", "start", "reachable", "(origin, dest, delay)", "⟳ iterate"} <= set(shown)
    assert any(re.fullmatch(r"Join · pictures\.py:\d+", text) for text in shown)


def test_a_runs_picture_has_records_state_and_frontiers():
    _, run = flights()
    shown = texts(run.to_svg())
    figures = {o.title: o for o in run.metrics()}
    assert str(figures["#0 Input 'flights'"].records_out) in shown
    assert "3 held · frontier 1" in shown
    assert "frontier 1" in shown
    run.close_inputs()
    assert "3 held · frontier closed" in texts(run.to_svg())


def test_edges_on_which_nothing_was_sent_are_dashed():
    flow = FLOWS["plain"]()
    run = flow.start()

    def dashed():
        return [a for tag, a, _ in elements(run.to_svg()) if tag == "path" and "stroke-dasharray" in a]

    assert len(dashed()) == 2
    run.insert("flights", [(1, 99)])
    run.advance()
    assert dashed() == []


def test_what_goes_back_has_a_colour_of_its_own():
    edges = [a for tag, a, _ in elements(FLOWS["components"]().to_svg()) if tag == "path" and a["fill"] == "none"]
    assert sum(a["stroke"] == "#dc2626" for a in edges) == 2


@pytest.mark.parametrize("name", FLOWS)
def test_every_operator_is_in_every_format(name):
    flow = FLOWS[name]()
    ids = [n.id for n in flow.graph.nodes]
    assert len(boxes_of(flow.to_svg())) == len(ids)
    assert sorted(int(i) for i in re.findall(r"^ *n(\d+)[\[({]", flow.to_mermaid(), re.MULTILINE)) == ids
    assert sorted(int(i) for i in re.findall(r"^ *n(\d+) \[label", flow.to_dot(), re.MULTILINE)) == ids


def test_mermaid_has_loops_as_subgraphs_and_quotes_what_means_something_to_it():
    text = FLOWS["components"]().to_mermaid()
    assert text.count("subgraph") == text.count("\n  end") + text.count("\n    end") == 2
    assert text.count("-.->") == 2
    assert '"]\n' in FLOWS["odd_names"]().to_mermaid()
    assert "<script>" not in FLOWS["odd_names"]().to_mermaid()


def test_a_direction_that_is_none_is_refused():
    with pytest.raises(tm.TidemillError, match="direction='left': expected 'auto', 'down' or 'right'"):
        FLOWS["plain"]().to_svg(direction="left")


def test_what_is_wide_when_tall_is_drawn_to_the_right():
    flow = FLOWS["plain"]()
    assert flow.to_svg() == flow.to_svg(direction="right")
    assert flow.to_svg(direction="down") != flow.to_svg(direction="right")
    assert FLOWS["left_joins"]().to_svg() == FLOWS["left_joins"]().to_svg(direction="down")


def test_notebooks_are_given_text_svg_and_an_image_that_survives_without_trust():
    flow, run = flights()
    for shown, text in ((flow, flow.explain()), (run, repr(run))):
        bundle = shown._repr_mimebundle_(include=None, exclude=None)
        assert list(bundle) == ["text/plain", "image/svg+xml", "text/html"]
        assert bundle["text/plain"] == text
        image = re.fullmatch(r'<img alt="[^"]*" src="data:image/svg\+xml;base64,([^"]+)"[^<>]*/>', bundle["text/html"])
        data = image.group(1)
        assert base64.b64decode(data).decode() == bundle["image/svg+xml"] == shown.to_svg()


def test_a_line_of_a_notebooks_cell_has_its_text(monkeypatch):
    import linecache
    import sys
    import types

    from tidemill.site import Site

    shell = types.SimpleNamespace(compile=types.SimpleNamespace(_filename_map={"/tmp/ipykernel_1/2.py": 3}))
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(linecache.cache, "/tmp/ipykernel_1/2.py", (10, None, ["x = 1\n", "y = x.distinct()\n"], ""))
    assert Site("In [3]", 2).source == "y = x.distinct()"
    assert Site("In [4]", 2).source == ""


def test_a_closed_run_shows_that_it_is_closed():
    _, run = flights()
    run.close()
    assert run._repr_mimebundle_() == {"text/plain": "Run of 'routes', closed"}
