"""The explorer in a browser: stepped, clicked, opened and closed, asked where a time is stuck; as a page and as a widget."""

import json

import pytest
from support.browser import Opened, browser
from support.pictures import FLOWS, large, overlapping, random_flow

import tidemill as tm
from tidemill.cli import main
from tidemill.notebook.explorer import answer
from tidemill.renderer.diagram.explorer_page import SCRIPTS, page_file, page_script
from tidemill.renderer.diagram.levels import levels_of

IN_A_NOTEBOOK = """data => {
    let answered;
    const model = {
        get: (name) => ({data, height: 500})[name], on: (_, f) => { answered = f; }, off: () => {},
        send: (message) => kernel(message).then((m) => answered(m)),
    };
    window.gone = widget.render({model, el: document.getElementById("here")});
}"""
"""What a notebook does with a widget."""


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


def whole(chromium, html, tmp_path, size=(1400, 860)):
    """A page with all boxes open."""
    opened = Opened(chromium, html, tmp_path, size)
    opened.page.evaluate("explorer.openAll()")
    return opened


def components(steps=3):
    """A run of nested loops: edges come and go."""
    run = FLOWS["components"]().start()
    run.log_events()
    run.insert("edges", [(i, (i * 7 + 1) % 20) for i in range(20)] + [(i, i + 1) for i in range(12)])
    run.advance()
    for i in range(1, steps):
        (run.insert if i % 2 else run.delete)("edges", [(12, 0)])
        run.advance()
    return run


def stuck():
    """Orders are three epochs ahead of customers."""
    flow = tm.Dataflow("stuck")
    orders = flow.input("orders", {"k": "int64", "v": "int64"})
    customers = flow.input("customers", {"k": "int64", "n": "string"})
    joined = orders.filter("v > 0").join(customers, on="k")
    flow.output("joined", joined.group_by("n").agg(t=tm.sum("v")))
    flow.output("totals", orders.group_by("k").agg(t=tm.sum("v")))
    run = flow.start()
    run.log_events()
    run.insert("orders", [(i % 5, i) for i in range(50)])
    run.insert("customers", [(i, f"<c{i}>") for i in range(5)])
    run.advance()
    run.insert("orders", [(1, 3)])
    run.advance_to(4, input="orders")
    return run


@pytest.mark.slow
def test_the_page_asks_for_nothing_and_complains_of_nothing(chromium, tmp_path):
    opened = Opened(chromium, components().to_html(), tmp_path)
    opened.keys("ArrowLeft", "ArrowDown", "ArrowDown", "ArrowUp", "ArrowRight", "Escape", "+", "-", "0")
    opened.page.locator("[data-do=dark]").click()
    assert opened.complaints == []
    assert len(opened.asked_for) == 1, "the page itself"


@pytest.mark.slow
def test_at_each_time_those_are_alive_that_had_work_and_edges_have_their_records(chromium, tmp_path):
    run = components()
    opened = whole(chromium, run.to_html(), tmp_path, (4000, 3000))  # all is in view: nothing else is written
    opened.page.evaluate("explorer.goTo(0)")
    for event in run.events:
        sent = {i: sum(w.times.values()) for i, w in event.operators.items() if w.times}
        assert opened.ids(".operator.alive") == sorted(sent)
        assert f"step {event.info.number}" in opened.text(".times output")
        counts = [t for t in opened.page.locator("text.count").all_text_contents() if t]
        read = {
            i for n in run.graph.nodes for i in (*[s.id for s in n.inputs], *([n.id] if n.kind == "Feedback" else []))
        }
        assert sorted(counts) == sorted(f"{n:,}" for i, n in sent.items() if i in read)
        opened.keys("ArrowRight")
    assert "now" in opened.text(".times output")
    assert opened.complaints == []


@pytest.mark.slow
def test_iterations_of_nested_loops_are_stepped_through(chromium, tmp_path):
    run = components()
    opened = whole(chromium, run.to_html(), tmp_path)
    opened.page.evaluate("explorer.goTo(1)")
    (user,) = {t[0] for w in run.events[1].operators.values() for t in w.times}
    rounds = sorted({t[1:] for w in run.events[1].operators.values() for t in w.times if len(t) > 1})
    assert any(len(r) == 2 for r in rounds)
    for which in rounds:
        opened.keys("ArrowDown")
        shown = which[0] if len(which) == 1 else f"({', '.join(map(str, which))})"
        sent = sum(w.times.get((user, *which), 0) for w in run.events[1].operators.values())
        assert opened.text(".rounds output") == f"iteration {shown}: {sent} record{'s' * (sent != 1)} sent"
        there = sorted(i for i, w in run.events[1].operators.items() if (user, *which) in w.times)
        assert opened.ids(".operator.alive") == there
    opened.keys("Escape")
    assert opened.text(".rounds output").startswith(f"all {len(rounds)} iterations: ")
    opened.page.locator(".bars button").nth(len(rounds) - 1).click()
    assert opened.text(".rounds output").startswith("iteration")


@pytest.mark.slow
def test_who_holds_a_time_back_is_outlined_and_who_waits_for_it_is_said(chromium, tmp_path):
    run = stuck()
    opened = whole(chromium, run.to_html(), tmp_path)
    kinds = {n.id: n.name for n in run.graph.nodes}
    assert [kinds[i] for i in opened.ids(".operator.holds")] == ["customers"]
    waits = {run.graph.nodes[i].kind for i in opened.ids(".operator.waits")}
    assert {"Join", "Output"} <= waits
    assert run.graph.outputs["totals"].id in opened.ids(".operator.passed")
    assert "held back by #1 customers, whose frontier is 1" in opened.text("aside").replace("\n", " ")


@pytest.mark.slow
def test_a_click_shows_schema_expression_line_figures_and_rows(chromium, tmp_path):
    run = stuck()
    opened = whole(chromium, run.to_html(), tmp_path)
    (where,) = (n for n in run.graph.nodes if n.kind == "Filter")
    opened.click(f"[data-id='{where.id}']")
    shown = opened.text("aside")
    for expected in ("v > 0", "(k: int64, v: int64)", "test_explorer.py:", "joined = orders.filter", "records sent"):
        assert expected in shown
    opened.click(f"[data-id='{run.graph.outputs['joined'].id}']")
    opened.page.locator(".records td", has_text="<c1>").wait_for()
    opened.keys("Escape")
    assert "held back by" in opened.text("aside")


@pytest.mark.slow
def test_a_click_shows_the_updates_of_the_time_that_is_looked_at(chromium, tmp_path):
    run = stuck()
    opened = whole(chromium, run.to_html(), tmp_path)
    opened.page.evaluate("explorer.goTo(0)")
    (where,) = (n for n in run.graph.nodes if n.kind == "Filter")
    opened.click(f"[data-id='{where.id}']")
    shown = opened.text("aside").split("UPDATES AT THIS TIME")[1]
    assert shown.split("\n")[1].split() == ["k", "v", "time"]
    assert shown.split("\n")[2].split() == ["+", "1", "1", "0"]
    assert "and 39 more, not on record" in shown


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FLOWS, *range(12)])
def test_opening_and_closing_leaves_nothing_on_anything_else(chromium, tmp_path, name):
    flow = random_flow(name) if isinstance(name, int) else FLOWS[name]()
    opened = whole(chromium, flow.start().to_html(), tmp_path)
    before = opened.page.locator(".canvas > g > .edges").inner_html()
    groups = [int(e.get_attribute("data-group")) for e in opened.page.locator("[data-group]").all()]
    assert overlapping(opened.rectangles(".operator > .body")) == []
    for group in reversed(groups):
        opened.click(f"[data-group='{group}']")
        assert overlapping(opened.rectangles(".operator > .body")) == []
    for group in groups:
        opened.click(f".operator[data-id='{group}'] .more")
        assert overlapping(opened.rectangles(".operator > .body")) == []
    assert opened.page.locator(".canvas > g > .edges").inner_html() == before
    assert opened.complaints == []


@pytest.mark.slow
def test_a_closed_loop_hides_what_is_inside_and_is_one_box(chromium, tmp_path):
    flow = FLOWS["components"]()
    opened = whole(chromium, flow.to_html(), tmp_path)
    inside = {n.id for n in flow.graph.nodes if n.scope.path == "/iterate/iterate"}
    (loop,) = (g.id for g in levels_of(flow.graph) if g.kind == "loop" and g.scope == 2)
    height = opened.page.evaluate("explorer.picture.size()[1]")
    opened.click(f"[data-group='{loop}']")
    assert not inside & set(opened.ids(".operator"))
    assert loop in opened.ids(".operator.group.loop")
    assert opened.page.evaluate("explorer.picture.size()[1]") < height - 100


@pytest.mark.slow
def test_it_is_dragged_and_zoomed(chromium, tmp_path):
    opened = whole(chromium, FLOWS["plain"]().to_html(), tmp_path)

    def first():
        return opened.rectangles(".operator > .body")[0]

    x, y, width, _ = first()
    opened.page.mouse.move(700, 700)
    opened.page.mouse.down()
    opened.page.mouse.move(760, 740, steps=3)
    opened.page.wait_for_timeout(100)  # what rests is not thrown
    opened.page.mouse.up()
    assert first()[0] == pytest.approx(x + 60, abs=1)
    assert first()[1] == pytest.approx(y + 40, abs=1)
    opened.page.mouse.wheel(0, -300)
    opened.page.wait_for_function(
        "document.querySelector('.operator .body').getBoundingClientRect().width > 1.5 * " + str(width)
    )


@pytest.mark.slow
def test_one_of_a_thing_is_called_one(chromium, tmp_path):
    run = tm.Dataflow("loop").start()
    opened = Opened(chromium, run.to_html(), tmp_path)
    assert "0 operators, 0 loops" in opened.text("aside")
    flow = tm.Dataflow("loop")
    x = flow.input("x", {"i": "int64"})
    flow.output("o", x.iterate(lambda here: here.concat(x).distinct()))
    opened = Opened(chromium, flow.to_html(), tmp_path)
    assert f"{len(flow.graph.nodes)} operators, 1 loop\n" in opened.text("aside") + "\n"


@pytest.mark.slow
def test_names_that_mean_something_to_html_are_only_text(chromium, tmp_path):
    run = FLOWS["odd_names"]().start()
    opened = whole(chromium, run.to_html(), tmp_path)
    for i in opened.ids(".operator"):
        opened.click(f"[data-id='{i}']")
    assert opened.page.locator("#explorer script").count() == 0
    assert opened.complaints == []


@pytest.mark.slow
def test_the_widget_asks_the_kernel_for_records(chromium, tmp_path):
    run = stuck()
    asked = []
    script = page_script() + page_file("widget.js").replace("export default", "window.widget =")
    html = f"<style>{page_file('explorer.css')}</style><div id=here></div><script>{script}</script>"
    opened = Opened(chromium, html, tmp_path)

    def kernel(message):
        asked.append((message["id"], message["time"]))
        return answer(message, run._records_at)

    opened.page.expose_function("kernel", kernel)
    data = json.loads(run._data())
    data["records"] = {}
    opened.page.evaluate(IN_A_NOTEBOOK, json.dumps(data))
    joined, totals = (run.graph.outputs[n].id for n in ("joined", "totals"))
    opened.click(f"[data-id='{totals}']")
    opened.page.locator(".records td", has_text="225").first.wait_for()
    opened.click(f"[data-id='{joined}']")
    opened.page.locator(".records", has_text="is not complete at 3").wait_for()
    opened.click("[data-id='0']")
    opened.page.locator(".records", has_text="the last 11 updates on record, of 51 sent up to 3").wait_for()
    assert asked == [(totals, [3]), (joined, [3]), (0, [3])]
    assert opened.complaints == []


def growing(times=(0, 1, 2)):
    """A row more at each time."""
    flow = tm.Dataflow("growing")
    flow.output("o", flow.input("x", {"i": "int64"}))
    run = flow.start(keep=5)
    run.log_events()
    run.update("x", [((i,), time, 1) for i, time in enumerate(times)])
    run.advance_to(times[-1] + 1)
    return run


@pytest.mark.slow
def test_rows_of_now_are_said_to_be_those_at_an_earlier_time(chromium, tmp_path):
    run = growing()
    opened = Opened(chromium, run.to_html(), tmp_path)
    opened.click(f"[data-id='{run.graph.outputs['o'].id}']")
    assert opened.text(".records h3").lower() == "records"
    opened.page.evaluate("explorer.goTo(0)")
    assert opened.text(".records h3").lower() == "records, not at this time but now"


@pytest.mark.slow
def test_the_widget_shows_the_rows_of_the_time_that_is_looked_at(chromium, tmp_path):
    run = growing()
    script = page_script() + page_file("widget.js").replace("export default", "window.widget =")
    opened = Opened(chromium, f"<div id=here></div><script>{script}</script>", tmp_path)
    opened.page.expose_function("kernel", lambda message: answer(message, run._records_at))
    opened.page.evaluate(IN_A_NOTEBOOK, run._data())
    opened.click(f"[data-id='{run.graph.outputs['o'].id}']")
    for rows in (["0", "1", "2"], ["0", "1"], ["0"]):
        opened.keys("ArrowLeft")
        opened.page.wait_for_function(
            "wanted => [...document.querySelectorAll('.records td')].map(e => e.textContent).join() === wanted",
            arg=",".join(rows),
        )
        assert opened.text(".records h3").lower() == "records"
    assert opened.complaints == []


@pytest.mark.slow
def test_a_widget_that_is_gone_plays_no_more(chromium, tmp_path):
    run = growing()
    script = page_script() + page_file("widget.js").replace("export default", "window.widget =")
    opened = Opened(chromium, f"<div id=here></div><script>{script}</script>", tmp_path)
    opened.page.expose_function("kernel", lambda message: answer(message, run._records_at))
    opened.page.evaluate("window.wanted = 0")
    opened.page.evaluate(
        """() => {
            const set = window.setInterval, clear = window.clearInterval, add = window.addEventListener.bind(window);
            window.setInterval = (...a) => { window.wanted++; return set(...a); };
            window.clearInterval = (...a) => { window.wanted--; clear(...a); };
            window.addEventListener = (name, f, options) => {
                window.wanted++;
                options?.signal?.addEventListener("abort", () => window.wanted--);
                add(name, f, options);
            };
        }"""
    )
    opened.page.evaluate(IN_A_NOTEBOOK, run._data())
    opened.page.locator("[data-do=play]").click()
    assert opened.page.evaluate("window.wanted") == 6
    opened.page.evaluate("window.gone()")
    assert opened.page.evaluate("window.wanted") == 0
    assert opened.complaints == []


def test_times_beyond_what_javascript_counts_to_are_told_apart(chromium, tmp_path):
    now = 1_700_000_000_000_000_001
    run = growing((now, now + 1, now + 2))
    opened = whole(chromium, run.to_html(), tmp_path)
    for i in range(3):
        opened.page.evaluate(f"explorer.goTo({i})")
        assert opened.text(".times output") == f"epoch {now + i} · step 1"
        assert len(opened.ids(".operator.passed")) == len(run.graph.nodes)
    assert run._records_at(run.graph.outputs["o"].id, [str(now + 1)])["rows"] == [["0"], ["1"]]


@pytest.mark.slow
def test_a_record_of_others_brings_no_code_with_it(chromium, tmp_path):
    run = growing()
    run.record(tmp_path / "theirs.json")
    record = json.loads((tmp_path / "theirs.json").read_text())
    code, data = '0"><img src=x onerror="window.hurt = 1">', record["data"]
    data["steps"] = []
    data["operators"][0]["id"] = data["groups"][0]["operators"][0] = code
    data["operators"][1]["reads"] = [code]
    data["groups"][0]["title"] = data["texts"][0] = code
    (tmp_path / "theirs.json").write_text(json.dumps(record))
    assert main(["explore", str(tmp_path / "theirs.json"), "--no-open"]) == 0
    opened = Opened(chromium, (tmp_path / "theirs.json.html").read_text(), tmp_path)
    opened.click("[data-id='1']")
    assert '#0"><img' in opened.text("aside")
    assert opened.page.locator("img").count() == 0


@pytest.mark.parametrize(
    ("frontier", "last"),
    [([(3, 0)], [2, 0]), ([(3, 4)], [2, 3]), ([(0, 2), (4, 0)], [3, 1]), ([(1, 0)], [0, 0])],
)
def test_the_last_time_that_is_closed_is_a_time_and_closed(frontier, last):
    flow = tm.Dataflow(time=("event", "correction"))
    flow.output("o", flow.input("x", {"i": "int64"}))
    run = flow.start()
    run.advance_to(tm.Antichain(frontier))
    assert json.loads(run._data())["now"] == last


def test_of_three_elements_of_a_frontier_the_last_time_is_closed():
    flow = tm.Dataflow(time=("event", "correction"))
    flow.output("o", flow.input("x", {"i": "int64"}))
    run = flow.start()
    run.advance_to(tm.Antichain([(0, 5), (2, 2), (5, 0)]))
    assert not run.frontier("o").beyond(tuple(json.loads(run._data())["now"]))


def test_the_rows_of_large_outputs_are_not_read_for_a_page(monkeypatch):
    run = stuck()
    rows = json.loads(run._data())["records"]
    joined = str(run.graph.outputs["joined"].id)
    assert len(rows[joined]["rows"]) == 5
    monkeypatch.setattr("tidemill.renderer.runs.pictures.READABLE", 3)
    assert json.loads(run._data())["records"][joined] == {
        "note": "5 updates are held: too many to be read for this page; run.snapshot reads them"
    }


def test_of_many_rows_the_first_are_shown():
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"i": "int64"}))
    run = flow.start()
    run.insert("x", [(i,) for i in range(500)])
    run.advance()
    (rows,) = json.loads(run._data())["records"].values()
    assert rows["rows"] == [[str(i)] for i in range(100)]
    assert rows["note"] == "the first 100 of 500 rows"


def test_rows_with_a_negative_count_are_said_not_to_be_shown():
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"i": "int64"}))
    run = flow.start()
    run.insert("x", [(1,)])
    run.delete("x", [(2,)])
    run.advance()
    (rows,) = json.loads(run._data())["records"].values()
    assert rows["rows"] == [["1"]]
    assert rows["note"] == "1 row with a negative count is not shown: counts() has it"


@pytest.mark.slow
def test_in_a_shadow_root_operators_are_clicked_and_boxes_opened_too(chromium, tmp_path):
    script = page_script() + page_file("widget.js").replace("export default", "window.widget =")
    opened = Opened(chromium, f"<div id=here></div><script>{script}</script>", tmp_path)
    run = components()
    opened.page.evaluate(
        """([data, css]) => {
            const root = document.getElementById("here").attachShadow({mode: "open"});
            root.innerHTML = `<style>${css}</style><div></div>`;
            const model = {get: (name) => ({data, height: 500})[name], on: () => {}, off: () => {}, send: () => {}};
            widget.render({model, el: root.querySelector("div")});
        }""",
        [run._data(), page_file("explorer.css")],
    )
    opened.page.locator(".operator.end").first.click()
    assert opened.text("aside").startswith("#0 edges")
    before = opened.page.locator(".operator").count()
    opened.page.locator(".operator.group").first.dblclick()
    assert opened.page.locator(".operator").count() > before
    opened.page.locator(".title").first.click()
    assert opened.page.locator(".operator").count() == before


def test_a_click_in_the_kernel_shows_an_operators_last_updates_on_record():
    run = stuck()
    (where,) = (n for n in run.graph.nodes if n.kind == "Filter")
    found = run._records_at(where.id, [3])
    assert found["columns"] == ["k", "v", "time", "diff"]
    assert found["rows"][-2:] == [["0", "10", "0", "+1"], ["1", "3", "1", "+1"]]
    assert found["note"] == "the last 11 updates on record, of 50 sent up to 3; the rows that it holds are not read"
    assert run._records_at(where.id, [0])["rows"] == found["rows"][:-1]
    run.delete("orders", [(1, 3)], time=4)
    run.advance_to(5, input="orders")
    assert run._records_at(where.id, None)["rows"][-1] == ["1", "3", "4", "-1"], "what came after the widget too"
    run.log_events(0)
    assert "begin with run.log_events()" in run._records_at(where.id, [3])["note"]


def test_the_widget_needs_anywidget_and_says_so(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "anywidget", None)
    for explored in (FLOWS["plain"](), FLOWS["plain"]().start()):
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'tidemill\[notebook\]'"):
            explored.explore()


def test_the_widget_has_what_it_shows():
    pytest.importorskip("anywidget")
    widget = stuck().explore(height=300)
    assert json.loads(widget.data)["name"] == "stuck"
    assert widget.height == 300
    assert "export default" in widget._esm


def test_a_saved_notebook_shows_the_picture_where_the_widget_was():
    pytest.importorskip("anywidget")
    run = stuck()
    for explored in (run, FLOWS["plain"]()):
        shown, _ = explored.explore()._repr_mimebundle_()
        assert "application/vnd.jupyter.widget-view+json" in shown
        assert {kind: shown[kind] for kind in shown if "widget" not in kind} == explored._repr_mimebundle_()
    widget = run.explore()
    run.close()
    assert 'src="data:image/svg+xml;base64,' in widget._repr_mimebundle_()[0]["text/html"], "of when it was made"


def test_the_code_of_the_page_is_small():
    files = (*SCRIPTS, "widget.js", "explorer.css", "page.html")
    assert sum(len(page_file(name).encode()) for name in files) < 150_000


@pytest.mark.slow
def test_a_record_is_made_a_page_by_the_command_line(chromium, tmp_path, capsys):
    run = components()
    run.record(tmp_path / "bug.json")
    assert main(["explore", str(tmp_path / "bug.json"), "--no-open"]) == 0
    page = tmp_path / "bug.json.html"
    assert capsys.readouterr().out == f"{page}\n"
    assert page.read_text(encoding="utf-8") == run.to_html()
    opened = whole(chromium, page.read_text(encoding="utf-8"), tmp_path)
    opened.page.evaluate("explorer.goTo(0)")
    assert len(opened.ids(".operator.alive")) > 10


def test_the_page_of_a_record_is_opened_and_written_where_wanted(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    stuck().record(tmp_path / "stuck")
    assert main(["explore", str(tmp_path / "stuck"), "--to", str(tmp_path / "page.html")]) == 0
    assert opened == [(tmp_path / "page.html").as_uri()]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no record of a run: expected 'tidemill record 2', a file written by run.record"),
        ("[]", "is no record of a run"),
        ('{"format": "tidemill record 9"}', "is of format 'tidemill record 9': expected 'tidemill record 2'"),
        ('{"format": "tidemill record 2"}', "has lost a part"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path, capsys, text, message):
    path = tmp_path / "x"
    if text is not None:
        path.write_text(text)
    assert main(["explore", str(path)]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "missing/record",
            r"cannot be written \(No such file or directory\): expected a path in a folder that is there",
        ),
        (".", r"cannot be written \(Is a directory\)"),
        (5, r"record\(5\): expected the path of a file to write, a string or a Path"),
        (None, r"record\(None\): expected the path of a file"),
        ("nul\0", "expected the path of a file to write"),
    ],
)
def test_a_record_that_cannot_be_written_is_refused(tmp_path, monkeypatch, path, message):
    monkeypatch.chdir(tmp_path)
    with stuck() as run, pytest.raises(tm.errors.StateError, match=message):
        run.record(path)


@pytest.mark.slow
def test_large_pages_open_and_step(chromium, tmp_path):
    flow = large(1000)
    run = flow.start(passes=False)
    run.log_events()
    for epoch in range(12):
        for name in flow.graph.inputs:
            run.insert(name, [(epoch % 7 + 1000,)])
        run.advance()
    opened = Opened(chromium, run.to_html(), tmp_path)
    assert 10 <= opened.page.locator(".operator").count() <= 40
    opened.page.evaluate("explorer.openAll()")
    assert opened.page.locator(".operator").count() >= 1000
    before = opened.text("aside")
    opened.page.evaluate("for (let i = 0; i < 10; i++) explorer.goTo(i)")
    assert opened.text("aside") != before
    assert opened.complaints == []
