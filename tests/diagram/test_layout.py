"""Where things are in a picture: nothing on anything else, however loops are nested, and always in the same place."""

import re

import pytest
from support.pictures import FLOWS, boxes_of, forbidden, large, left_joins, random_flow, wrong_in

import tidemill as tm
from tidemill.renderer.diagram.scene import Figures, scene_of
from tidemill.renderer.diagram.svg import svg_of


def ran(graph):
    """Figures as of a run in which some operators sent much, some nothing."""
    return {
        n.id: Figures(0 if n.id % 5 == 3 else 987_654_321 // (n.id + 1), 1000 * (n.id % 3), "(0, 12) (3, 4)")
        for n in graph.nodes
    }


@pytest.mark.parametrize("direction", ["down", "right"])
@pytest.mark.parametrize("name", FLOWS)
def test_nothing_lies_on_anything_else(name, direction):
    graph = FLOWS[name]().graph
    for figures in ({}, ran(graph)):
        svg = svg_of(scene_of(graph, figures), direction)
        assert wrong_in(svg) == []
        assert forbidden(svg) == []


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_nothing_lies_on_anything_else_in_random_dataflows(block):
    for seed in range(25 * block, 25 * (block + 1)):
        graph = random_flow(seed).graph
        svg = svg_of(scene_of(graph, ran(graph) if seed % 2 else {}), "right" if seed % 3 == 0 else "down")
        assert (seed, wrong_in(svg)) == (seed, [])
        assert forbidden(svg) == []


def test_the_same_dataflow_gives_the_same_picture():
    one, other = (svg_of(scene_of(random_flow(11).graph)) for _ in range(2))
    assert one == other


def test_a_loop_with_a_long_name_is_no_wider_for_it():
    flow = tm.Dataflow()
    x = flow.input("x", {"i": "int64"})
    flow.output("o", x.iterate(lambda inner: inner.concat(x).distinct(), name="long " * 1000))
    found = re.search(r'width="(\d+)"', flow.to_svg(direction="down"))
    assert found is not None
    width = int(found[1])
    assert width < 500
    assert len(flow.to_html()) < 200_000


@pytest.mark.parametrize("made", [large(300), left_joins(30), left_joins(30).start(), large(300).start()])
def test_of_a_large_graph_notebooks_show_a_few_boxes_that_can_be_read(made):
    svg = made._repr_mimebundle_()["image/svg+xml"]
    assert 3 < len(boxes_of(svg)) <= 40
    assert wrong_in(svg) == []
    assert forbidden(svg) == []
    assert "boxes</title>" in svg
    assert len(boxes_of(made.to_svg())) == len(made.graph.nodes), "asked for, it is all of them"


def test_of_a_small_one_they_show_all_operators():
    flow = left_joins(10)
    assert flow._repr_mimebundle_()["image/svg+xml"] == flow.to_svg()


@pytest.mark.parametrize("block", range(4))
def test_nothing_lies_on_anything_else_where_boxes_are_closed(block, monkeypatch):
    monkeypatch.setattr("tidemill.renderer.diagram.closed_scene._FEW", 5)
    monkeypatch.setattr("tidemill.renderer.diagram.closed_scene.MOST", 12)
    for seed in range(10 * block, 10 * block + 10):
        run = random_flow(seed).start()
        svg = run._repr_mimebundle_()["image/svg+xml"]
        assert (seed, wrong_in(svg)) == (seed, [])
