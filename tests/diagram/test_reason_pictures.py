"""Why a row is there, or is not, as a picture: as it was looked at and kept; what is in it, and what is cut short.

``TIDEMILL_WRITE=1 pytest tests/diagram`` writes the pictures anew: look at them before you keep them.
"""

import base64
import os
import re
from pathlib import Path

import pytest
from support.pictures import boxes_of, elements, forbidden, wrong_in

import tidemill as tm

KEPT = Path(__file__).parent / "pictures"


def asked(flow, rows, output, row):
    """The answer of a run on these rows."""
    with flow.start(why=True) as run:
        for name, some in rows.items():
            run.insert(name, some)
        run.advance()
        return run.why(output, row)


def packages():
    flow = tm.Dataflow("packages")
    depends = flow.input("depends", {"package": "string", "on": "string"})
    wanted = flow.input("wanted", {"package": "string"})

    def step(needed):
        return needed.join(depends, on="package").select(package="on").concat(wanted).distinct()

    flow.output("needed", wanted.iterate(step))
    rows = [("gnome", "gnome-shell"), ("gnome-shell", "gjs"), ("gjs", "libc6"), ("libc6", "gjs"), ("bash", "libc6")]
    return flow, {"wanted": [("gnome",)], "depends": rows}, "needed"


def sales(count=19):
    flow = tm.Dataflow("sales")
    sold = flow.input("sales", {"shop": "string", "item": "string", "amount": "int64"})
    flow.output("totals", sold.group_by("shop").agg(total=tm.sum("amount")))
    rows = [("Jena", f"item {i:02}", i) for i in range(1, count + 1)]
    return flow, {"sales": rows}, "totals"


def odd_rows():
    """Rows with what means something to XML, with what cannot be printed, and one that is long."""
    flow = tm.Dataflow()
    a, b = (flow.input(name, {"k": "int64", "text": "string"}) for name in ("<a>", "b & c"))
    flow.output("out", a.join(b.rename(text="more"), on="k"))
    return flow, {"<a>": [(1, "<b>\x07]]>")], "b & c": [(1, "long " * 100)]}, "out"


def pairs():
    flow = tm.Dataflow("pairs")
    people = flow.input("people", {"name": "string", "town": "string"})
    other = people.rename(name="other")
    flow.output("neighbours", people.join(other, on="town").filter("name < other").select("name", "other"))
    return flow, {"people": [("Ann", "Jena"), ("Ben", "Jena"), ("Cem", "Gera")]}, "neighbours"


CASES = {
    "why_recursion": (packages, ("libc6",)),
    "why_many_rows": (sales, ("Jena", 190)),
    "why_odd_rows": (odd_rows, (1, "<b>\x07]]>", "long " * 100)),
    "why_no_row_in_a_loop": (packages, ("perl",)),
    "why_no_partner": (pairs, ("Ann", "Cem")),
    "why_another_sum": (sales, ("Jena", 191)),
}


def answer_of(case):
    made, row = CASES[case]
    flow, rows, output = made()
    return asked(flow, rows, output, row)


def texts(svg):
    return [text for tag, _, text in elements(svg) if tag == "text"]


@pytest.mark.parametrize("case", CASES)
def test_the_picture_of_reasons_is_the_one_that_was_looked_at(case):
    made = re.sub(r"test_reason_pictures\.py:\d+", "pictures.py", answer_of(case).to_svg())
    path = KEPT / f"{case}.svg"
    if os.environ.get("TIDEMILL_WRITE"):
        path.write_text(made, encoding="utf-8")
    assert made == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("direction", ["auto", "down", "right"])
@pytest.mark.parametrize("case", CASES)
def test_nothing_lies_on_anything_else_and_nothing_is_stripped(case, direction):
    svg = answer_of(case).to_svg(direction=direction)
    assert wrong_in(svg) == []
    assert forbidden(svg) == []


def test_rows_have_their_operators_and_the_iterations_that_bear_them_out():
    shown = texts(answer_of("why_recursion").to_svg())
    assert {
        "('gnome',)",
        "('gnome-shell',)",
        "('gjs',)",
        "('libc6',)",
        "iteration 1",
        "iteration 2",
        "iteration 3",
    } <= set(shown)
    assert any(re.fullmatch(r"Join \[on package\] · test_reason_pictures\.py:\d+", text) for text in shown)
    assert shown[-2:] == ["Output · needed", "('libc6',)"]


def test_what_is_a_reason_twice_is_drawn_once():
    flow = tm.Dataflow()
    a = flow.input("a", {"k": "int64", "v": "int64"})
    flow.output("out", a.join(a.rename(v="w"), on="k"))
    svg = asked(flow, {"a": [(1, 2)]}, "out", (1, 2, 2)).to_svg()
    assert texts(svg).count("input 'a'") == 1
    assert len(boxes_of(svg)) == len(set(boxes_of(svg)))


def test_what_is_missing_is_red_and_nothing_comes_along_its_edges():
    svg = answer_of("why_no_row_in_a_loop").to_svg()
    red = [a for tag, a, _ in elements(svg) if tag == "rect" and a.get("stroke") == "#dc2626"]
    assert len(red) == 2  # no such dependency, and not wanted by itself
    assert "input 'depends' has no row with on = 'perl'" in texts(svg)
    edges = [a for tag, a, _ in elements(svg) if tag == "path" and a["fill"] == "none"]
    assert edges
    assert all("stroke-dasharray" in a for a in edges)
    assert texts(svg)[-1] == "is not there"


def test_nothing_of_a_row_that_is_there_is_red_or_dashed():
    svg = answer_of("why_recursion").to_svg()
    assert not any(a.get("stroke") == "#dc2626" or "stroke-dasharray" in a for _, a, _ in elements(svg))


def test_many_rows_of_an_input_are_in_one_box():
    svg = answer_of("why_many_rows").to_svg()
    assert len(boxes_of(svg)) == 4
    assert {"19 rows of input 'sales'", "… and 11 more rows"} <= set(texts(svg))
    tooltips = [text for tag, _, text in elements(svg) if tag == "title"]
    assert any("('Jena', 'item 19', 19)  input 'sales'" in text for text in tooltips)


def test_rows_that_are_read_elsewhere_too_have_boxes_of_their_own():
    flow = tm.Dataflow()
    a = flow.input("a", {"k": "int64", "v": "int64"})
    total = a.agg(total=tm.sum("v"))
    flow.output("out", total.cross_join(a.agg(n=tm.count())).cross_join(a.filter("v = 3").select("v")))
    svg = asked(flow, {"a": [(i, i) for i in range(1, 9)]}, "out", (36, 8, 3)).to_svg()
    assert wrong_in(svg) == []
    assert "(3, 3)" in texts(svg)


def test_what_is_cut_short_is_whole_in_the_tooltip():
    svg = answer_of("why_odd_rows").to_svg()
    assert any(text.endswith("…") for text in texts(svg))
    assert any("long " * 100 in text for tag, _, text in elements(svg) if tag == "title")
    assert max(box[2] for box in boxes_of(svg)) < 300


@pytest.mark.slow
def test_a_long_chain_has_the_reasons_nearest_to_the_row(hops=150):
    flow = tm.Dataflow()
    edges = flow.input("edges", {"a": "int64", "b": "int64"})
    start = flow.constant({"at": "int64"}, [(0,)])

    def step(here):
        return here.join(edges, on={"at": "a"}).select(at="b").concat(start).distinct()

    flow.output("reached", start.iterate(step))
    why = asked(flow, {"edges": [(i, i + 1) for i in range(hops)]}, "reached", (hops,))
    svg = why.to_svg()
    assert len(boxes_of(svg)) == 61
    assert f"({hops - 1}, {hops})" in texts(svg)
    assert "(0, 1)" not in texts(svg)
    assert any(re.fullmatch(r"… and \d+ more reasons?", text) for text in texts(svg))
    assert wrong_in(svg) == []


def test_without_a_tree_the_picture_has_the_rows():
    flow, rows, output = sales(250)
    svg = asked(flow, rows, output, ("Jena", 250 * 251 // 2)).to_svg()
    assert "250 rows of input 'sales'" in texts(svg)
    assert any("too many rows to tell" in text for text in texts(svg))


def test_notebooks_are_given_the_tree_as_text_the_picture_and_an_image_of_it():
    why = answer_of("why_recursion")
    bundle = why._repr_mimebundle_(include=None, exclude=None)
    assert list(bundle) == ["text/plain", "image/svg+xml", "text/html"]
    assert bundle["text/plain"] == str(why)
    image = re.fullmatch(
        r'<img alt="needed has [^"]*" src="data:image/svg\+xml;base64,([^"]+)"[^<>]*/>', bundle["text/html"]
    )
    assert image is not None
    assert base64.b64decode(image[1]).decode() == bundle["image/svg+xml"] == why.to_svg()


def test_a_direction_that_is_none_is_refused_here_too():
    with pytest.raises(tm.TidemillError, match="direction='left': expected 'auto', 'down' or 'right'"):
        answer_of("why_recursion").to_svg(direction="left")
