"""Results in notebooks: tables in HTML, and tables that stay up to date."""

import sys

import numpy as np
import pyarrow as pa
import pytest
from support.running import new_flow, start

import tidemill as tm
from tidemill.errors import TimeError, UnknownNameError


@pytest.fixture
def run(engine):
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"<i>": "int64", "s": "string"}))
    with start(flow, engine) as started:
        yield started


def test_results_as_html(run):
    run.update("x", [((1, "<script>alert(1)</script>"), 0, 2), ((-1, None), 0, 1)])
    run.advance()
    html = run.snapshot("x")._repr_html_()
    assert "<caption>3 rows at 0</caption>" in html
    assert "<th>&lt;i&gt;</th>" in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 2
    assert "<script" not in html
    assert "<i>NULL</i>" in html
    updates = run.changes("x")._repr_html_()
    assert "<caption>2 updates from Antichain(0) to Antichain(1)</caption>" in updates
    assert ">+2</td>" in updates


def test_html_and_text_show_few_of_many_rows(run):
    run.insert("x", pa.table({"<i>": np.arange(5000), "s": ["y" * 500] * 5000}))
    run.advance()
    rows, changes = run.snapshot("x"), run.changes("x")
    for result in (rows, changes):
        assert result._repr_html_().count("<tr>") == 1 + 20 + 1
        assert "… 4,980 more" in result._repr_html_()
        assert "… 4,997 more" in result.to_html(limit=3)
        assert repr(result).endswith("... 4990 more")
        assert len(result._repr_html_()) < 10_000
    assert "y" * 201 not in rows.to_html()
    run.close_inputs()
    assert "5,000 rows in the end" in run.snapshot("x").to_html()


def test_copies_are_shown_as_often_as_they_are_there(run):
    run.update("x", [((1, "a"), 0, 30), ((2, "b"), 0, 1), ((0, "c"), 0, -1)])
    run.advance()
    assert run.snapshot("x").to_html(limit=30).count(">a</td>") == 30
    assert ">b</td>" in run.snapshot("x").to_html(limit=31)
    assert ">c</td>" not in run.snapshot("x").to_html(limit=99)
    assert repr(run.snapshot("x")).count("\n") == 1 + 10 + 1 + 1


def test_empty_results_as_html(run):
    run.advance()
    assert "<caption>0 rows at 0</caption>" in run.snapshot("x").to_html()
    assert "<tbody></tbody>" in run.changes("x").to_html()


class Notebook:
    """Stands for IPython's display: keeps what each display shows."""

    def __init__(self):
        self.shown = []

    def display(self, view, *, display_id):
        assert display_id is True
        self.shown.append(view._repr_html_())
        return Handle(self.shown, len(self.shown) - 1)


class Handle:
    def __init__(self, shown, place):
        self.shown, self.place = shown, place

    def update(self, view):
        self.shown[self.place] = view._repr_html_()


@pytest.fixture
def notebook(monkeypatch):
    pytest.importorskip("IPython")
    import IPython.display

    made = Notebook()
    monkeypatch.setattr(IPython.display, "display", made.display)
    return made


def test_a_live_table_follows_the_run(run, notebook):
    live = run.live("x", limit=1)
    assert notebook.shown[0].endswith("<tbody></tbody></table>")
    run.insert("x", [(1, "a")])
    run.advance()
    assert "1 row at 0" in notebook.shown[0]
    live.show()
    run.insert("x", [(2, "b")])
    run.advance()
    assert len(notebook.shown) == 2
    assert all("2 rows at 1" in s and "… 1 more" in s for s in notebook.shown)
    live.stop()
    run.advance()
    assert all("2 rows at 1" in s for s in notebook.shown)
    live.refresh()
    assert all("2 rows at 2" in s for s in notebook.shown)
    assert live._ipython_display_() is None


def test_a_live_table_outside_of_a_notebook_is_printed_once(run, capsys):
    pytest.importorskip("IPython")
    run.live("x")
    run.advance()
    assert capsys.readouterr().out.startswith("<i>  s\n")


def test_what_can_not_be_live(run, engine):
    pytest.importorskip("IPython")
    with pytest.raises(UnknownNameError, match="did you mean|there are"):
        run.live("q")
    flow = new_flow(2)
    flow.output("x", flow.input("x", {"i": "int64"}))
    with start(flow, engine) as other, pytest.raises(TimeError, match=r"look at run.snapshot\('x', at=...\)"):
        other.live("x")


def test_without_ipython_the_extra_is_named(run, monkeypatch):
    for name in [n for n in sys.modules if n.partition(".")[0] == "IPython"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "IPython", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'tidemill\[notebook\]'"):
        run.live("x")
    run.advance()
