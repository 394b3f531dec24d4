"""Building, starting and drawing a dataflow of n operators is n times the work of one: counted in calls, not in time."""

import cProfile

import pytest

import tidemill as tm
from tidemill.expressions import sql_parser, sql_printer
from tidemill.renderer.diagram.layout import lay_out
from tidemill.renderer.diagram.scene import scene_of

KV = {"k": "int64", "v": "int64"}
KW = {"k": "int64", "w": "int64"}


def chain_of_filters(flow, n):
    c = flow.input("a", KV)
    for i in range(n):
        c = c.filter(f"v > {i}")
    flow.output("o", c)


def union_of_filters(flow, n):
    a = flow.input("a", KV)
    first, *others = [a.filter(f"v = {i}") for i in range(n)]
    flow.output("o", first.concat(*others))


def chain_of_joins(flow, n):
    c, b = flow.input("a", KV), flow.input("b", KW)
    for _ in range(n // 3):
        c = c.join(b, on="k").select("k", v="v + w")
    flow.output("o", c)


def one_shared_input(flow, n):
    a = flow.input("a", KV)
    for i in range(n // 2):
        flow.output(f"o{i}", a.select("k", v=f"v + {i}"))


def views_of_ten(flow, n):
    a, b = flow.input("a", KV), flow.input("b", KW)
    for i in range(n // 10):
        c = a.filter(f"v > {i}").select("k", v=f"v * {i}").join(b, on="k").filter(f"w < {i}")
        c = c.group_by("k").agg(n=tm.count(), s=tm.sum("v")).filter("n > 1").with_columns(z="s + n")
        flow.output(f"o{i}", c.distinct().select("k", "z"))


def loops(flow, n):
    a = flow.input("a", KV)
    for i in range(n // 8):
        flow.output(f"o{i}", a.iterate(lambda v, i=i: v.filter(f"v < {i}").select("k", v="v + 1").concat(a).distinct()))


SHAPES = [chain_of_filters, union_of_filters, chain_of_joins, one_shared_input, views_of_ten, loops]


def calls_of(work):
    """Return how many calls, of Python's functions and of built-in ones, a piece of work makes."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


def grown(shape, n):
    """Return the calls of building, starting and drawing a dataflow of about n operators, and its picture's length."""
    for kept in (sql_parser._kept, sql_printer._kept):  # texts that are known cost nothing
        kept.cache_clear()
    flow, runs, pictures = tm.Dataflow(), [], []
    build = calls_of(lambda: shape(flow, n))
    start = calls_of(lambda: runs.append(flow.start()))
    draw = calls_of(lambda: pictures.append(flow.to_svg(direction="down")))
    runs[0].close()
    return {"build": build, "start": start, "draw": draw, "svg": len(pictures[0])}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_operators_are_twice_the_work(shape):
    grown(shape, 80)  # what is done for the first time; pictures of more than 400 operators are sorted in fewer sweeps
    small, middle, large = (grown(shape, n) for n in (440, 880, 1760))
    for what in small:
        one, two = middle[what] - small[what], large[what] - middle[what]
        assert two <= 2.3 * one, f"{what}: {small[what]}, {middle[what]}, {large[what]} calls"


def test_an_edge_goes_along_a_trunk_once():
    """What many read in layer after layer is a trunk: all edges together have as many points as it has layers."""

    points = []
    for n in (300, 600, 1200):
        flow = tm.Dataflow()
        chain_of_joins(flow, n)
        points.append(sum(len(edge.points) for edge in lay_out(scene_of(flow.graph)).edges))
    assert points[2] - points[1] <= 2.3 * (points[1] - points[0])
