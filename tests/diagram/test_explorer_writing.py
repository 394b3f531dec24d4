"""What is written in the explorer: in boxes that are in view, in the tabs of frames; names that tell boxes apart."""

import pytest
from support.browser import Opened, browser
from support.pictures import joins, large, overlapping

import tidemill as tm

pytestmark = pytest.mark.slow

WRITTEN = """() => { const c = document.querySelector('.canvas').getBoundingClientRect();
    const found = { seen: 0, blank: 0, beyond: 0 };
    for (const e of document.querySelectorAll('.operator')) {
        const r = e.querySelector('.body').getBoundingClientRect();
        const isSeen = r.right > c.left && r.left < c.right && r.bottom > c.top && r.top < c.bottom;
        const isFar = r.right < c.left - 80 || r.left > c.right + 80 || r.bottom < c.top - 80 || r.top > c.bottom + 80;
        const isWritten = [...e.querySelectorAll('text')].some(t => t.textContent);
        found.seen += isSeen; found.blank += isSeen && !isWritten; found.beyond += isFar && isWritten;
    }
    return found; }"""
"""How many boxes are in view, how many of them say nothing, and how many say something far out of view."""


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


def test_boxes_are_written_in_where_they_are_seen_and_when_they_come_to_be(chromium, tmp_path):
    opened = Opened(chromium, large(300).start().to_html(), tmp_path, (900, 500))
    opened.page.evaluate("explorer.openAll()")
    first = opened.page.evaluate(WRITTEN)
    assert (first["blank"], first["beyond"]) == (0, 0)
    assert 0 < first["seen"] < 100
    box = opened.page.locator(".map").bounding_box()
    opened.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    there = opened.page.evaluate(WRITTEN)
    assert (there["blank"], there["beyond"]) == (0, 0)
    assert there["seen"] > 0
    opened.page.evaluate("explorer.picture.zoom(2)")
    assert opened.page.evaluate(WRITTEN)["blank"] == 0


def test_tabs_of_frames_have_letters_or_are_not_there(chromium, tmp_path):
    opened = Opened(chromium, large(300).start().to_html(), tmp_path, (900, 500))
    opened.page.evaluate("explorer.openAll()")
    opened.page.emulate_media(reduced_motion="reduce")
    opened.keys("0")
    tabs = "[...document.querySelectorAll('.title')].map(t => [t.querySelector('rect').getAttribute('visibility'), t.querySelector('text').textContent])"
    found = opened.page.evaluate(tabs)
    assert all((visibility == "visible") == bool(text) for visibility, text in found)
    assert {visibility for visibility, _ in found} == {"visible", "hidden"}


def test_far_out_no_tab_lies_on_another(chromium, tmp_path):
    opened = Opened(chromium, large(300).start().to_html(), tmp_path, (1280, 760))
    opened.page.evaluate("explorer.openAll()")
    for key in "0----+++++":
        opened.keys(key)
        tabs = opened.rectangles(".title rect:not([visibility=hidden])")
        assert overlapping(tabs) == []
    assert tabs


def test_boxes_of_one_name_say_their_lines_and_boxes_with_outputs_inside_show_them(chromium, tmp_path):
    flow = tm.Dataflow("two of each")
    x = flow.input("x", {"k": "string", "n": "int64"})
    best = x.group_by("k").agg(n=tm.max("n"))
    flow.output("best", best)
    for i in range(30):
        flow.output(f"o{i}", x.filter(f"n > {i}").select("k"))
    best = best.filter("n > 1").select("k").distinct()
    flow.output("keys", best)
    opened = Opened(chromium, flow.start().to_html(), tmp_path, (1200, 700))
    opened.page.evaluate("explorer.openAll()")
    titles = opened.page.evaluate(
        "[...explorer.tree.groups.values()].map(g => [g.operators, g.groups].flat()).map(ids =>"
        " ids.filter(id => !explorer.tree.isChip(id)).map(id => explorer.tree.titleOf(id)))"
    )
    assert all(len(set(inside)) == len(inside) for inside in titles), titles
    assert sum(title.startswith("best :") for inside in titles for title in inside) == 2
    opened.page.evaluate("explorer.picture.begin()")
    some = opened.page.locator(".operator.some")
    assert some.count() == opened.page.locator(".operator.some .strip").count() > 0
    assert "output" in some.first.text_content()


def test_a_phone_has_the_button_that_follows(chromium, tmp_path):
    opened = Opened(chromium, joins().to_html(), tmp_path, (360, 640))
    opened.page.locator("[data-do=follow]").click()
    assert opened.page.locator("[data-do=follow]").get_attribute("aria-pressed") == "false"
