"""What a reader sees of the explorer: boxes that open, letters that can be read, what has work, lists, times."""

import re

import pytest
from support.browser import Opened, browser
from support.pictures import FLOWS, boxes_of, inside, joins, large, overlap, overlapping, random_flow, ways_of

import tidemill as tm
from tidemill.notebook.explorer import answer
from tidemill.renderer.diagram.explorer_page import page_file, page_script

pytestmark = pytest.mark.slow

LETTERS = """() => [...document.querySelectorAll('.canvas text')].filter(t => t.textContent.trim()
    && getComputedStyle(t).display !== 'none').map(t => {
        const m = t.getScreenCTM();
        return Number(t.getAttribute('font-size') || 0) * Math.hypot(m.a, m.b);
    })"""
"""How high letters are on the screen."""
HERE = "document.querySelectorAll('.operators tr.here')"
OUTSIDE = """() => { const c = document.querySelector('.canvas').getBoundingClientRect();
    const inside = [...document.querySelectorAll('.operator.alive .body')].filter(e => { const r = e.getBoundingClientRect();
        return r.left > c.left - 1 && r.right < c.right + 1 && r.top > c.top - 1 && r.bottom < c.bottom + 1;
    });
    return document.querySelectorAll('.map rect.alive').length - inside.length; }"""
"""How many boxes with work, which the map has all, are not in view, or not as a whole."""
DRAWN = """() => {
    const boxes = [...document.querySelectorAll('.operator .body')].map(r => `<g>${r.outerHTML}</g>`);
    const ways = [...document.querySelectorAll('.edge .line')].map(p => `<path fill="none" d="${p.getAttribute('d')}"/>`);
    return `<svg xmlns="http://www.w3.org/2000/svg">${boxes.join('')}${ways.join('')}</svg>`;
}"""
"""Boxes and edges as a picture that is read as those of notebooks are."""
WAYS = """() => {
    const [tree, edges] = [explorer.tree, explorer.picture.edges()];
    const next = new Map();
    for (const e of edges) next.set(e.source, [...(next.get(e.source) || []), e.target]);
    const leads = (from, to) => {
        const seen = new Set([from]);
        const wait = [from];
        while (wait.length) for (const t of next.get(wait.pop()) || []) {
            if (t === to) return true;
            if (typeof t === 'string' && !seen.has(t)) { seen.add(t); wait.push(t); }
        }
        return false;
    };
    const loopOf = (id) => tree.operators.get(id)?.role === 'border' && tree.around(id)[0];
    const wrong = edges.filter(e => String(e.source).endsWith(`>${loopOf(e.target)}`)).map(e => [e.source, e.target]);
    for (const o of tree.operators.values()) for (const r of o.reads) {
        const [from, to] = [tree.standsFor(r), tree.standsFor(o.id)];
        if (from !== to && !leads(from, to)) wrong.push([r, o.id]);
    }
    return wrong;
}"""
"""Pairs of which one reads the other without a way from box to box, or with one that enters a loop twice."""


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


def corrected():
    """Times of two coordinates, in which one input is behind."""
    flow = tm.Dataflow("bitemporal", time=("event", "correction"))
    orders = flow.input("orders", {"k": "int64"})
    prices = flow.input("prices", {"k": "int64"})
    flow.output("o", orders.join(prices, on="k"))
    run = flow.start()
    run.log_events()
    for event in range(3):
        for correction in range(3):
            run.update("orders", [((event,), (event, correction), 1)])
    run.advance_to((3, 3), input="orders")
    run.advance_to((1, 0), input="prices")
    return run


def group(opened, title):
    """The number of a box by the beginning of its title."""
    return opened.page.evaluate(
        "title => [...explorer.tree.groups.values()].find(g => g.title.startsWith(title)).id", title
    )


@pytest.mark.parametrize("size", [(360, 640), (800, 600), (1920, 1080)])
def test_letters_can_be_read_at_every_zoom_and_a_large_graph_opens_as_a_few_boxes(chromium, tmp_path, size):
    opened = Opened(chromium, large(1000).start().to_html(), tmp_path, size)
    assert 3 <= opened.page.locator(".operator").count() <= 40
    for _ in range(2):
        for key in ("-",) * 9 + ("+",) * 14:
            opened.keys(key)
            assert min(opened.page.evaluate(LETTERS), default=11) > 10.95
        opened.page.evaluate("explorer.openAll()")
    assert opened.complaints == []


@pytest.mark.parametrize("name", ["components", "left_joins", 21, 23])
def test_edges_lead_from_box_to_box_and_through_none_whatever_is_open(chromium, tmp_path, name):
    flow = random_flow(name) if isinstance(name, int) else FLOWS[name]()
    opened = Opened(chromium, flow.start().to_html(), tmp_path)

    def check():
        assert opened.page.evaluate(WAYS) == []
        svg = opened.page.evaluate(DRAWN)
        boxes = boxes_of(svg)
        for way in ways_of(svg):
            assert not [box for box in boxes for point in way if inside(point, box)]

    check()
    opened.page.evaluate("explorer.openAll()")
    check()
    for group_id in opened.page.evaluate("[...explorer.tree.groups.keys()].slice(1, 6)"):
        opened.page.evaluate(f"explorer.toggle({group_id})")
        check()
        opened.page.evaluate(f"explorer.toggle({group_id})")
    assert opened.complaints == []


@pytest.mark.parametrize("size", [(1400, 860), (1800, 420)])
@pytest.mark.parametrize("name", ["reachability", "even_and_odd", "components", 4])
def test_titles_of_open_boxes_are_on_no_box_and_on_no_other_title(chromium, tmp_path, name, size):
    flow = random_flow(name) if isinstance(name, int) else FLOWS[name]()
    opened = Opened(chromium, flow.start().to_html(), tmp_path, size)
    for opens in ("null", "explorer.openAll()"):
        opened.page.evaluate(opens)
        boxes, titles = opened.rectangles(".operator > .body, .port"), opened.rectangles(".title rect")
        assert [(a, b) for a in titles for b in boxes if overlap(a, b)] == []
        assert overlapping(titles) == []
        for text in opened.page.locator(".title text").all_text_contents():
            assert not text.endswith("…") or len(text) > 10, text
    assert titles


def test_nearer_there_is_more_to_read_of_a_box(chromium, tmp_path):
    opened = Opened(chromium, joins().to_html(), tmp_path)
    box = f".operator[data-id='{group(opened, 'left join dim0')}'] text.quiet"

    def lines():
        return [t for t in opened.page.locator(box).all_text_contents() if t]

    opened.keys(*["-"] * 6)
    assert lines() == []
    seen = []
    for _ in range(9):
        opened.keys("+")
        opened.page.evaluate(f"explorer.reveal({group(opened, 'left join dim0')})")
        seen.append(len(lines()))
    assert seen == sorted(seen)
    assert len(set(seen)) > 2
    assert any("held" in line for line in lines())
    assert any("pictures.py:" in line for line in lines())


def test_a_box_opens_and_closes_by_click_double_click_and_keys_and_says_what_is_held_in_it(chromium, tmp_path):
    run = joins()
    opened = Opened(chromium, run.to_html(), tmp_path)
    join = group(opened, "left join dim2")
    closed, frame = f".operator[data-id='{join}']", f"[data-group='{join}']"
    inside = opened.page.evaluate("id => explorer.tree.groups.get(id).operators", join)
    held = sum(o.state_rows for o in run.metrics() if o.id in inside)
    assert held
    assert f"{held:,} held" in opened.page.locator(closed).get_attribute("aria-label")
    assert not set(inside) & set(opened.ids(".operator"))
    for opens in (
        lambda: opened.page.locator(f"{closed} .more text").click(),
        lambda: opened.page.locator(closed).dblclick(),
        lambda: (opened.page.locator(closed).focus(), opened.keys("Enter")),
    ):
        opens()
        assert set(inside) <= set(opened.ids(".operator"))
        assert opened.page.locator(closed).count() == 0
        opened.page.locator(frame).focus()
        opened.keys("Enter")
        assert opened.page.locator(closed).count() == 1


def test_what_a_box_opened_stays_where_it_was(chromium, tmp_path):
    opened = Opened(chromium, joins().to_html(), tmp_path)
    join = group(opened, "left join dim2")
    opened.page.evaluate("explorer.picture.zoom(0.3)")
    before = opened.rectangles(f".operator[data-id='{join}'] .body")[0]
    opened.page.evaluate(f"explorer.toggle({join})")
    opened.page.evaluate(f"explorer.toggle({join})")
    assert opened.rectangles(f".operator[data-id='{join}'] .body")[0] == pytest.approx(before, abs=1.5)


def test_of_a_box_opened_all_is_in_view_or_its_beginning(chromium, tmp_path):
    opened = Opened(chromium, joins(2).to_html(), tmp_path, (1000, 900))
    join = group(opened, "left join dim1")
    opened.page.evaluate("explorer.picture.zoom(2)")
    opened.page.evaluate(f"explorer.toggle({join})")
    x, y, width, height = opened.rectangles(f"[data-group='{join}'] rect")[0]
    assert 0 <= x < 700 - width
    assert 0 < y < 900 - height


def test_what_has_work_comes_into_view_but_where_that_is_held(chromium, tmp_path):
    run = FLOWS["components"]().start()
    run.log_events()
    run.insert("edges", [(i, (i * 7 + 1) % 20) for i in range(20)] + [(i, i + 1) for i in range(12)])
    run.advance()
    run.insert("edges", [(12, 0)])
    run.advance()
    opened = Opened(chromium, run.to_html(), tmp_path, (1200, 700))
    opened.page.evaluate("explorer.toggle([...explorer.tree.groups.values()].find(g => g.kind === 'loop').id)")
    opened.page.evaluate("explorer.picture.zoom(4)")
    rounds = opened.page.evaluate("explorer.moments[1].rounds.length")
    assert rounds > 5
    for which in range(-1, rounds):
        opened.page.evaluate(f"explorer.goTo(1, {which})")
        assert opened.page.locator(".operator.alive").count() >= 1
        assert opened.page.evaluate(OUTSIDE) == 0
    opened.keys("0", "f")
    opened.page.evaluate("explorer.picture.zoom(9)")
    where = opened.page.locator(".canvas > g").get_attribute("transform")
    opened.page.evaluate("explorer.goTo(0)")
    assert opened.page.locator(".canvas > g").get_attribute("transform") == where


def test_of_what_has_work_far_apart_a_part_is_in_view(chromium, tmp_path):
    run = large(300).start()
    run.log_events()
    run.insert("in0", [(1000,)])
    run.advance()
    opened = Opened(chromium, run.to_html(), tmp_path, (900, 500))
    opened.page.evaluate("explorer.openAll()")
    opened.page.evaluate("explorer.goTo(0)")
    alive = opened.page.locator(".map rect.alive").count()
    assert alive > 20
    assert opened.page.evaluate(OUTSIDE) < 0.75 * alive
    assert opened.page.evaluate("explorer.picture.scale()") >= 0.2


def test_a_box_out_of_view_that_gets_the_focus_comes_into_view_and_says_what_it_is_like_at_the_moment(
    chromium, tmp_path
):
    run = large(300).start()
    run.log_events()
    for name in run.graph.inputs:
        run.insert(name, [(1,)])
    run.advance()
    page = Opened(chromium, run.to_html(), tmp_path, (1200, 800)).page
    page.evaluate("explorer.openAll()")
    page.keyboard.press("f")
    page.evaluate("explorer.picture.zoom(6); explorer.goTo(0)")
    found = page.evaluate("""() => { const c = document.querySelector('.canvas').getBoundingClientRect();
        const placeOf = (box) => box.querySelector('.body').getBoundingClientRect();
        const said = (box) => box.getAttribute('aria-label');
        const isFar = (r) => r.top > c.bottom + 200 || r.left > c.right + 200;
        const isSeen = (r) => r.top > c.top && r.bottom < c.bottom && r.left > c.left && r.right < c.right;
        return [...document.querySelectorAll('.operator')].filter((box) => isFar(placeOf(box))).map((box) => {
            const before = said(box);
            box.focus({ preventScroll: true });
            return [before, said(box), isSeen(placeOf(box))];
        }); }""")
    assert len(found) > 100
    assert all(is_seen for _, _, is_seen in found)
    assert any(after != before for before, after, _ in found)


def test_the_map_is_there_where_not_all_can_be_seen_and_a_click_goes_there(chromium, tmp_path):
    opened = Opened(chromium, joins().to_html(), tmp_path)
    opened.keys("0")
    assert not opened.page.locator(".map").is_visible()
    opened.page.evaluate("explorer.picture.zoom(4)")
    assert opened.page.locator(".map").is_visible()
    box = opened.page.locator(".map").bounding_box()
    opened.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 4)
    first = opened.page.evaluate(
        "[...document.querySelectorAll('.canvas .body')].map(e => e.getBoundingClientRect().y)"
    )
    assert 0 < min(first) < 860


def test_the_ways_in_and_out_of_a_chosen_box_are_lit(chromium, tmp_path):
    opened = Opened(chromium, joins(2).to_html(), tmp_path)
    assert opened.page.locator(".edge.lit").count() == 0
    join = group(opened, "left join dim1")
    opened.page.evaluate(f"explorer.choose({join})")
    assert opened.page.locator(".edge.lit").count() == 3, "two in, one out"
    opened.page.evaluate(f"explorer.toggle({join})")
    opened.page.evaluate("explorer.choose(0)")
    assert opened.page.locator(".edge.lit").count() >= 1


def test_the_old_and_the_new_of_a_row_are_one_line_with_signs_and_names_of_columns(chromium, tmp_path):
    run = joins(1)
    opened = Opened(chromium, run.to_html(), tmp_path)
    opened.page.evaluate("explorer.goTo(1)")
    opened.click(f"[data-id='{run.graph.inputs['dim0'].id}']")
    rows = opened.page.locator(".updates tr")
    assert rows.nth(0).inner_text().split() == ["d0", "name0", "time"]
    assert rows.count() == 2
    assert rows.nth(1).inner_text().split() == ["±", "1", "−n1", "+another", "1"]
    opened.page.evaluate("explorer.goTo(0)")
    assert opened.page.locator(".updates tr.plus .sign").all_inner_texts() == ["+", "+", "+"]


def test_operators_are_found_by_name_column_kind_and_line_and_shown_where_they_are(chromium, tmp_path):
    run = joins()
    opened = Opened(chromium, run.to_html(), tmp_path)
    opened.keys("/")
    for text, count in (("name5", 3), ("Threshold", 6), ("pictures.py:59", 1), ("no such thing", 0)):
        opened.page.locator("input[type=search]").fill(text)
        found = opened.page.locator(".operators tr[data-choose]").count()
        assert found >= count if count > 1 else found == count, text
    opened.page.locator("input[type=search]").fill("threshold")
    hidden = int(opened.page.locator(".operators tr[data-choose]").first.get_attribute("data-choose"))
    assert hidden not in opened.ids(".operator")
    opened.page.locator(".operators tr[data-choose] a").first.click()
    assert opened.ids(".operator.chosen") == [hidden]
    assert opened.page.locator(".operators tr.here").get_attribute("data-choose") == str(hidden)


def test_the_table_is_sorted_by_each_figure_and_shows_who_works_or_holds(chromium, tmp_path):
    run = joins()
    opened = Opened(chromium, run.to_html(), tmp_path)
    opened.keys("t")
    figures = {o.id: o for o in run.metrics()}

    def shown():
        return [int(r.get_attribute("data-choose")) for r in opened.page.locator(".operators tr[data-choose]").all()]

    seconds = {i: round(o.seconds, 7) for i, o in figures.items()}  # as the page has them
    assert [seconds[i] for i in shown()] == sorted(seconds.values(), reverse=True)[:200]
    opened.page.locator("[data-sort=held]").click()
    assert [figures[i].state_rows for i in shown()] == sorted((o.state_rows for o in figures.values()), reverse=True)
    opened.page.locator("[data-only=holds]").click()
    assert set(shown()) == {o.id for o in figures.values() if o.state_rows}
    opened.page.evaluate("explorer.goTo(1)")
    opened.page.locator("[data-only=works]").click()
    assert set(shown()) == {i for i, w in run.events[1].operators.items() if w.times}


def test_a_click_in_the_picture_shows_the_box_in_the_table_too(chromium, tmp_path):
    opened = Opened(chromium, large(300).start().to_html(), tmp_path)
    opened.keys("t")
    rows = f"[...{HERE}].map(row => Number(row.dataset.choose))"
    hidden = opened.page.locator(".operators tr[data-choose]").count()
    for box in ("in0", "out9"):
        opened.click(f".operator[aria-label^={box}]")
        assert opened.page.evaluate(rows) == opened.ids(".operator.chosen")
        assert opened.page.evaluate(
            f"(() => {{ const [r, p] = [{HERE}[0], document.querySelector('aside')].map(e => "
            "e.getBoundingClientRect()); return p.top <= r.top && r.bottom <= p.bottom; })()"
        )
    assert hidden == 100 < opened.page.locator(".operators tr[data-choose]").count(), (
        "the row of one is beyond the first"
    )
    opened.click(".operator.group")
    box = opened.page.evaluate(
        "explorer.tree.groups.get(Number(document.querySelector('.operator.chosen').dataset.id)).all"
    )
    assert opened.page.evaluate(rows)
    assert set(opened.page.evaluate(rows)) <= set(box)


def test_times_of_two_coordinates_are_a_grid_that_says_who_holds_them(chromium, tmp_path):
    opened = Opened(chromium, corrected().to_html(), tmp_path)

    def cell(event, correction):
        return opened.page.locator(f".grid td[aria-label^='({event}, {correction}) ']")

    assert cell(0, 1).get_attribute("class").split()[0] == "closed"
    assert cell(2, 1).get_attribute("class").split()[0] == "held"
    assert "held by prices" in cell(2, 1).get_attribute("aria-label")
    cell(0, 1).click()
    assert opened.text(".times output").startswith("(0, 1) of event, correction"), "on a phone the end is cut"
    assert "here" in cell(0, 1).get_attribute("class")
    cut = "(() => { const e = document.querySelector('.times output'); return e.scrollWidth > e.clientWidth; })()"
    assert not opened.page.evaluate(cut), "the time can be read"
    assert "SENT AT THIS TIME" in opened.text("aside").upper()
    cell(2, 1).click()
    assert "SENT AT TIME (0, 1)" in opened.text("aside").upper(), "of what is drawn, not of what is asked for"
    opened.keys("Escape")
    cell(2, 1).click()
    assert "here" in cell(2, 1).get_attribute("class")
    assert "held back by #1 prices" in opened.text("aside").replace("\n", " ")
    assert opened.complaints == []


def test_a_narrow_cell_has_its_panel_below_and_a_change_of_size_fits_anew(chromium, tmp_path):
    opened = Opened(chromium, joins(2).to_html(), tmp_path, (332, 600))
    main, aside = (opened.page.locator(f"{part}").bounding_box() for part in ("main", "aside"))
    assert main["width"] == 332
    assert aside["y"] >= main["y"] + main["height"]
    opened.keys("t")
    assert opened.page.locator("main").bounding_box()["width"] == 332, "with the table too"
    assert opened.page.locator(".times output").bounding_box()["x"] + 20 < 332
    opened.keys("t")
    opened.page.set_viewport_size({"width": 1300, "height": 800})
    opened.page.wait_for_function("!document.querySelector('.tidemill').classList.contains('narrow')")
    opened.page.wait_for_function(
        "[...document.querySelectorAll('.canvas .body')].every(e => { const r = e.getBoundingClientRect();"
        " return r.right < 1000 && r.bottom < 800 && r.left >= 0; })"
    )
    middle = [x + width / 2 for x, _, width, _ in opened.rectangles(".canvas .body")]
    assert 300 < sum(middle) / len(middle) < 700, "in the middle of the new window"


def focused(opened):
    """What has the focus: its text, where it is in the page."""
    return opened.page.evaluate(
        "() => { const e = document.activeElement; return e.id || e.getAttribute('aria-label') || e.textContent; }"
    )


def test_keys_go_on_after_what_had_the_focus_is_written_anew_or_is_gone(chromium, tmp_path):
    run = FLOWS["components"]().start()
    run.log_events()
    for i in range(3):
        run.insert("edges", [(i, i + 1), (i + 1, i)])
        run.advance()
    opened = Opened(chromium, run.to_html(), tmp_path)
    opened.page.evaluate("explorer.goTo(1)")
    opened.page.locator("aside a").nth(1).focus()
    opened.keys("Enter")
    assert focused(opened) == "explorer", "the link is gone with the list that it was in"
    opened.keys("ArrowRight")
    assert "step 3" in opened.text(".times output")
    opened.keys("t")
    opened.page.locator("[data-sort=held]").focus()
    opened.keys("Enter")
    assert focused(opened) == "sort by held"
    opened.keys("Enter", "ArrowLeft")
    assert focused(opened) == "sort by held"
    assert opened.text("[data-sort=held]") == "held ↑"
    opened.page.locator("[data-only=holds]").focus()
    opened.keys(" ", "ArrowLeft")
    assert focused(opened) == "hold rows"
    row = opened.page.locator(".operators tr[data-choose] a").nth(2)
    row.focus()
    name = row.inner_text()
    opened.keys("Enter", "ArrowRight")
    assert focused(opened) == name
    opened.page.locator(".bars button").nth(1).focus()
    opened.keys("Enter", "ArrowRight", "ArrowRight", "ArrowRight")
    assert focused(opened) == "explorer", "now has no iterations"
    opened.keys("ArrowLeft")
    assert "step 3" in opened.text(".times output")


def test_a_cell_of_the_grid_and_a_box_keep_the_focus(chromium, tmp_path):
    opened = Opened(chromium, corrected().to_html(), tmp_path)
    for event, correction in ((0, 1), (2, 1)):
        opened.page.locator(f".grid td[aria-label^='({event}, {correction}) ']").focus()
        opened.keys("Enter")
        assert focused(opened).startswith(f"({event}, {correction}) is ")
        assert "here" in opened.page.locator(".grid td:focus").get_attribute("class")
    opened.keys("ArrowLeft")
    assert focused(opened).startswith("(2, 1) is ")
    box = opened.page.locator(".operator").first
    box.focus()
    opened.page.evaluate("document.activeElement.was = true")
    opened.page.set_viewport_size({"width": 1000, "height": 700})
    opened.page.wait_for_function("document.activeElement !== document.body && !document.activeElement.was")
    assert opened.page.evaluate("document.activeElement.dataset.id") == box.get_attribute("data-id")


def test_two_views_of_a_widget_take_no_answers_of_each_other(chromium, tmp_path):
    run = joins(1)
    script = page_script() + page_file("widget.js").replace("export default", "window.widget =")
    opened = Opened(chromium, f"<div id=a></div><div id=b></div><script>{script}</script>", tmp_path)
    opened.page.expose_function("kernel", lambda message: answer(message, run._records_at))
    opened.page.evaluate(
        """data => {
            const views = [];
            window.asked = [];
            const model = {
                get: (name) => ({data, height: 400})[name], on: (_, f) => views.push(f), off: () => {},
                send: (message) => window.asked.push(message),
            };
            for (const id of ["a", "b"]) widget.render({model, el: document.getElementById(id)});
            window.answerAll = async () => {
                for (const message of window.asked) {
                    const found = await kernel(message);
                    for (const view of views) view(found);
                }
            };
        }""",
        run._data(),
    )
    facts, dim = (run.graph.inputs[name].id for name in ("facts", "dim0"))
    opened.click(f"#a [data-id='{facts}']")
    opened.click(f"#b [data-id='{dim}']")
    opened.page.evaluate("window.answerAll()")
    assert opened.page.locator("#a .records th").all_inner_texts()[:2] == ["k", "d0"]
    assert opened.page.locator("#b .records th").all_inner_texts()[:2] == ["d0", "name0"]


def test_a_long_name_leaves_the_picture_its_place_and_can_be_read(chromium, tmp_path):
    name = "w " * 5000
    opened = Opened(chromium, tm.Dataflow(name).to_html(), tmp_path)
    assert opened.page.locator("header").bounding_box()["height"] < 80
    assert opened.page.locator("main").bounding_box()["height"] > 700
    assert opened.page.locator("header b").get_attribute("title") == name


def counting(rounds):
    """A loop of so many iterations."""
    flow = tm.Dataflow("counting")
    x = flow.input("x", {"i": "int64"})
    flow.output("o", x.iterate(lambda here: here.filter(f"i < {rounds}").select(i="i + 1").concat(x).distinct()))
    run = flow.start()
    run.log_events()
    run.insert("x", [(0,)])
    run.advance()
    return run


def test_every_iteration_of_many_has_a_bar_and_the_bar_of_the_one_shown_is_in_view(chromium, tmp_path):
    opened = Opened(chromium, counting(900).to_html(), tmp_path)
    opened.page.evaluate("explorer.goTo(0)")
    rounds = opened.page.evaluate("explorer.moments[0].rounds.map(r => r.time[0])")
    assert len(rounds) > 800
    bars = opened.page.locator(".bars button")
    reached = []
    for said in bars.evaluate_all("all => all.map(e => e.title.split(':')[0])"):
        first, *last = [int(n) for n in said.split() if n.isdigit()]
        reached += range(first, (last or [first])[0] + 1)
    assert reached == rounds
    assert bars.count() <= 400
    bars.last.click()
    assert opened.page.locator(".bars [aria-pressed=true]").count() == 1
    opened.keys(*["ArrowDown"] * 3)
    assert opened.text(".rounds output").startswith(f"iteration {rounds[-1]}: ")
    for which in (len(rounds) - 1, 0, 451):
        opened.page.evaluate(f"explorer.goTo(0, {which})")
        pressed = opened.page.locator(".bars [aria-pressed=true]")
        strip, bar = opened.page.locator(".bars").bounding_box(), pressed.bounding_box()
        assert strip["x"] - 1 < bar["x"] < strip["x"] + strip["width"] - bar["width"] + 1  # parts of a pixel
        first, *last = [int(n) for n in pressed.get_attribute("title").split(":")[0].split() if n.isdigit()]
        assert first <= rounds[which] <= (last or [first])[0]
    pressed.click()
    assert opened.text(".rounds output").startswith(f"all {len(rounds)} iterations: ")


def test_what_is_thrown_goes_on_for_a_while(chromium, tmp_path):
    opened = Opened(chromium, joins(2).to_html(), tmp_path)
    opened.page.emulate_media(reduced_motion="no-preference")
    opened.page.evaluate(
        """() => {
            const canvas = document.querySelector('.canvas');
            const send = (on, name, x) => on.dispatchEvent(new PointerEvent(name, {bubbles: true, pointerId: 1, clientX: x, clientY: 300}));
            send(canvas, 'pointerdown', 300);
            for (let x = 300; x <= 400; x += 20) send(window, 'pointermove', x);
            window.released = document.querySelector('.canvas > g').getAttribute('transform');
            send(window, 'pointerup', 400);
        }"""
    )
    opened.page.wait_for_function("document.querySelector('.canvas > g').getAttribute('transform') !== window.released")


TOUCHED = """(moment) => {
    const heard = new MutationObserver(() => {});
    const all = {subtree: true, attributes: true, childList: true, characterData: true};
    for (const part of document.querySelectorAll("main > svg")) heard.observe(part, all);
    explorer.goTo(moment);
    return heard.takeRecords().map(({ target }) =>
        Number((target.closest ? target : target.parentElement).closest("[data-id]")?.dataset.id ?? -1));
}"""
"""The boxes of which a step sets or writes something, or -1 for what is of no box; each as often as it is done."""


def test_a_step_touches_nothing_of_operators_without_work_before_and_after(chromium, tmp_path):
    run = joins(3)
    run.insert("dim0", [(7, "one more")])
    run.advance()
    opened = Opened(chromium, run.to_html(), tmp_path, (4000, 3000))  # all is in view: no box comes into it
    opened.page.evaluate("explorer.openAll(); explorer.goTo(1)")
    assert opened.page.evaluate(TOUCHED, 1) == []
    works = run.events[1].operators.keys() | run.events[2].operators.keys()
    touched = set(opened.page.evaluate(TOUCHED, 2)) - {-1}  # not the input for one, where it took as long both times
    assert touched
    assert touched <= works < {n.id for n in run.graph.nodes}


def test_the_legend_stays_as_it_is_put_from_time_to_time(chromium, tmp_path):
    opened = Opened(chromium, joins(1).to_html(), tmp_path)
    assert opened.page.locator(".legend .swatch").first.is_visible()
    opened.page.locator(".legend summary").click()
    opened.page.evaluate("explorer.goTo(0)")
    assert not opened.page.locator(".legend .swatch").first.is_visible()


@pytest.mark.parametrize(("size", "least"), [((360, 740), 5), ((800, 700), 10), ((1280, 800), 26), ((1920, 1080), 26)])
def test_what_is_open_at_first_can_be_read_is_seen_and_uses_the_room(chromium, tmp_path, size, least):
    opened = Opened(chromium, joins(12).to_html(), tmp_path, size)
    boxes = opened.rectangles(".operator > .body")
    assert least <= len(boxes) <= 40
    assert min(opened.page.evaluate(LETTERS)) > 10.99
    canvas = opened.page.locator(".canvas").bounding_box()
    for x, y, width, height in boxes:
        assert canvas["x"] <= x <= x + width <= canvas["x"] + canvas["width"]
        assert canvas["y"] <= y <= y + height <= canvas["y"] + canvas["height"]
    assert opened.page.evaluate("explorer.picture.scale()") >= 0.48
    assert opened.complaints == []


def test_figures_are_never_cut(chromium, tmp_path):
    flow = tm.Dataflow("counts")
    x = flow.input("x", {"k": "int64"})
    for i in range(8):
        flow.output(f"o{i}", x.group_by("k").agg(n=tm.count()).join(x, on="k"))
    run = flow.start()
    run.insert("x", [(k,) for k in range(1370)])
    run.advance()
    opened = Opened(chromium, run.to_html(), tmp_path, (1000, 600))
    seen = set()
    for key in ("-",) * 4 + ("+",) * 10:
        opened.keys(key)
        seen |= set(opened.page.locator(".operator text.quiet").all_text_contents())
    held = [text for text in seen if "1,37" in text or "2,74" in text or "held" in text]
    assert held
    assert all(re.fullmatch(r"[\d.,K]+ held( · [\d.]+ m?s)?", text) for text in held), held


def test_what_tells_boxes_of_one_name_apart_is_not_cut(chromium, tmp_path):
    flow = tm.Dataflow("alike")
    x = flow.input("x", {"n": "int64"})
    for i in range(8):
        flow.output(f"o{i}", x.filter(" OR ".join(f"n = {j}" for j in range(20, 60)) + f" OR n = {i}"))
    opened = Opened(chromium, flow.to_html(), tmp_path, (1280, 800))
    names = [t for t in opened.page.locator(".operator text.name").all_text_contents() if t]
    assert len([name for name in names if re.search(r"… #\d+$", name)]) == 8
    assert len(names) == len(set(names))
