"""Long steps are shown while they are under way, operator by operator; short ones, and where nobody looks, are not."""

import base64
import io
import re
import sys
import threading
import time
import types
from typing import Any

import pytest

import tidemill as tm
from tidemill.renderer.runs import progress
from tidemill.renderer.runs.progress import InNotebook, InTerminal, Look, Watcher


class Shown:
    """A display that keeps what it is shown."""

    def __init__(self):
        self.tables, self.hidden = [], 0

    def show(self, look):
        self.tables.append((look.title, look.lines))
        self.shares = look.shares

    def hide(self):
        self.hidden += 1


def slowly(seconds):
    flow = tm.Dataflow("slowly")
    x = flow.input("x", {"k": "int64"})
    flow.output("o", x.map_rows(lambda row: time.sleep(seconds) or (row.k,), {"k": "int64"}).count("n"))
    return flow


def until(happened):
    """Wait for what another thread does, however busy the machine is."""
    end = time.monotonic() + 60
    while not happened() and time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.slow
def test_a_long_step_is_shown_and_gone_when_it_is_taken():
    display = Shown()
    with slowly(0.1).start() as run:
        watcher = Watcher(run._stepper, display, after=1, every=0.01)
        run.insert("x", [(1,)])
        run.advance()
        time.sleep(0.1)
        assert not display.tables
        run.insert("x", [(i,) for i in range(20)])
        run.advance()
        until(lambda: display.hidden)
        assert len(display.tables) > 5
        title, lines = display.tables[-1]
        assert title.startswith("step 2 of 'slowly': ")
        name, records, share, rate, _ = lines[0]
        assert name.startswith("#1 FlatMap")
        assert records == "20"
        assert int(share.removesuffix("%")) > 80
        assert 0 < int(rate) < 2000
        assert display.hidden == 1
    watcher.thread.join(60)
    assert not watcher.thread.is_alive()


def test_a_display_that_fails_is_logged_and_nothing_to_the_run(caplog):
    gone = ["the terminal is gone"]

    class Gone(Shown):
        def show(self, look):
            raise OSError(*gone)

    with slowly(0.02).start() as run:
        watcher = Watcher(run._stepper, Gone(), after=0.05, every=0.01)
        run.insert("x", [(i,) for i in range(20)])
        run.advance()
        watcher.thread.join(60)
        assert len(run.snapshot("o")) == 20
    assert caplog.messages == ["progress is not shown any more: OSError: the terminal is gone"]


@pytest.mark.slow
def test_a_step_that_was_not_taken_does_not_count_with_the_next():
    display = Shown()
    flow = tm.Dataflow()

    def refuse(row):
        time.sleep(0.1)
        if row.k < 0:
            raise ValueError
        return (row.k,)

    flow.output("o", flow.input("x", {"k": "int64"}).map_rows(refuse, {"k": "int64"}))
    with flow.start() as run:
        Watcher(run._stepper, display, after=0.1, every=0.01)
        run.insert("x", [(i,) for i in range(19, -2, -1)])
        with pytest.raises(tm.errors.UserFunctionError):
            run.advance()
        run.discard()
        until(lambda: display.hidden == 1)
        time.sleep(0.1)  # the next step is counted from what was there then
        run.insert("x", [(i,) for i in range(10)])
        run.advance()
        until(lambda: display.hidden == 2)
        name, records, _, _, _ = display.tables[-1][1][0]
        assert name.startswith("#1 FlatMap")
        assert records == "10"


class Pretended:
    """What is watched, of which a test says how far it is."""

    name = "pretended"

    def __init__(self):
        self.steps, self.began, self.is_over, self.records = 0, None, True, 0
        flow = tm.Dataflow()
        self.node = flow.input("x", {"k": "int64"}).count("n").node

    def progress(self):
        return [progress.OperatorProgress(self.node, self.records, self.records / 1000)]


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_step_does_not_count_with_the_next_where_no_look_falls_between(is_taken):
    watched, display = Pretended(), Shown()
    watcher = Watcher(watched, display, after=0)
    watcher.thread.join()  # it is over, as far as the thread sees: the test looks itself
    watched.is_over = False

    def counted():
        assert watcher._look()
        return [line[1] for line in display.tables[-1][1]]

    watched.began, watched.records = 1.0, 20
    assert counted() == ["20"]
    watched.began, watched.steps, watched.records = 2.0, int(is_taken), 25
    assert counted() == []
    watched.records = 32
    assert counted() == ["7"]
    watched.began = None
    assert watcher._look()
    watched.began, watched.steps, watched.records = 3.0, 2, 35  # one between was too short to be seen
    assert counted() == []
    watched.began = None
    assert watcher._look()
    watched.began, watched.records = 4.0, 40
    assert counted() == ["5"]


def test_a_run_that_is_dropped_takes_its_thread_with_it():
    run = slowly(0).start()
    watcher = Watcher(run._stepper, Shown(), every=0.01)
    run.close()
    watcher.thread.join(60)
    assert not watcher.thread.is_alive()


def test_who_looks(monkeypatch):
    before = set(threading.enumerate())  # watchers of runs that other tests dropped may end meanwhile

    def new_watchers():
        return [t for t in threading.enumerate() if t.name == "tidemill-progress" and t not in before]

    with slowly(0).start():
        assert new_watchers() == []  # tests have no terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with slowly(0).start(progress=False):
        assert new_watchers() == []
    with slowly(0).start():
        assert len(new_watchers()) == 1
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda _: None)
        assert progress.display_here() is None
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert isinstance(progress.display_here(), InNotebook)


LINES = [("#1 FlatMap [b]", "20", "95%", "50", "7")]


def test_in_a_terminal():
    rich = pytest.importorskip("rich.console")
    text = io.StringIO()
    display = InTerminal(rich.Console(file=text, force_terminal=True, width=80))
    display.show(Look("step 2 of 'slowly': 2.1 s", LINES, {1: 0.95}))
    display.show(Look("step 2 of 'slowly': 2.3 s", LINES, {1: 0.95}))
    display.hide()
    assert "step 2 of 'slowly': 2.3 s" in text.getvalue()
    assert "#1 FlatMap [b]" in text.getvalue()
    assert "updates/s" in text.getvalue()


def test_in_a_notebook(monkeypatch):
    display = pytest.importorskip("IPython.display")
    told = []
    handle = types.SimpleNamespace(update=lambda html: told.append(html.data))
    monkeypatch.setattr(display, "display", lambda html, display_id: told.append(html.data) or handle)
    shown = InNotebook()
    shown.show(Look("step 2", LINES, {1: 0.95}))
    shown.show(Look("step 2", LINES, {1: 0.95}))
    shown.hide()
    assert [("FlatMap" in text) for text in told] == [True, True, False]
    assert told[-1] == ""


def test_a_loop_says_which_iteration_it_is_in():
    display = Shown()
    flow = tm.Dataflow("loops")
    x = flow.input("x", {"k": "int64"})

    def body(here):
        return here.map_rows(lambda row: time.sleep(0.02) or (min(row.k + 1, 30),), {"k": "int64"}).concat(x).distinct()

    flow.output("o", x.iterate(body))
    with flow.start() as run:
        Watcher(run._stepper, display, after=0.1, every=0.01)
        run.insert("x", [(1,)])
        run.advance()
        inside = [int(t.split("in /iterate, iteration ")[1]) for t, _ in display.tables if "in /iterate" in t]
        assert inside == sorted(inside)
        assert inside[-1] > 10


def test_what_is_pending_is_counted_by_the_thread_of_the_step():
    display = Shown()
    counted_by = set()
    flow = tm.Dataflow("pending")
    x = flow.input("x", {"k": "int64"})

    def body(here):
        slow = here.map_rows(lambda row: time.sleep(0.02) or (row.k,), {"k": "int64"})
        return slow.filter("k < 20").select(k="k + 1").concat(x).distinct()

    flow.output("o", x.iterate(body))
    with flow.start() as run:
        executor: Any = run._stepper.executor  # the embedded one
        count = executor._count_outstanding

        def counted():
            counted_by.add(threading.current_thread())
            count()

        executor._count_outstanding = counted
        watcher = Watcher(run._stepper, display, after=0.05, every=0.01)
        run.insert("x", [(1,)])
        run.insert("x", [(i,) for i in range(100, 107)], time=5)
        run.advance_to(1)
    watcher.thread.join(60)
    assert counted_by == {threading.current_thread()}
    pending = {}
    for _, lines in display.tables:
        for name, *_, waits in lines:
            pending.setdefault(name.split()[1], set()).add(waits)
    assert "7" in pending["Input"], "for a later step"
    assert pending["Input"] <= {"", "7", "8"}, "8 before its turn in this step"
    assert "1" in pending["Filter"], "what it is to take next in this iteration"


def watched(monkeypatch, *, in_notebook):
    display = pytest.importorskip("IPython.display")
    told = []
    handle = types.SimpleNamespace(update=lambda html: told.append(html.data))
    monkeypatch.setattr(display, "display", lambda html, display_id: told.append(html.data) or handle)
    monkeypatch.setattr(progress, "in_notebook", lambda: in_notebook)
    return told


@pytest.mark.slow
def test_watch_shows_the_graph_coloured_by_where_the_time_goes(monkeypatch):
    told = watched(monkeypatch, in_notebook=True)
    with slowly(0.02).start() as run:
        stop = run.watch(after=0.05)
        run.insert("x", [(i,) for i in range(30)])
        run.advance()
        time.sleep(0.5)
        assert "FlatMap" in told[-1], "what was seen last stays"
        data = re.search(r"base64,([^\"]+)", told[-1]).group(1)
        svg = base64.b64decode(data).decode()
        fills = re.findall(r'<title>#(\d+) [^<]*</title>\s*<rect [^>]*fill="#..(..)', svg)
        green = {int(i): int(g, 16) for i, g in fills}
        assert len(green) == len(run.graph.nodes)
        assert set(re.findall(r'<text [^>]*fill="(#\w+)"', svg)) == {"#0f172a"}, "read on any of these colours"
        assert green[1] < 150 < min(g for i, g in green.items() if i != 1), "the more time, the less green"
        stop()
        shown = len(told)
        run.insert("x", [(i,) for i in range(30)])
        run.advance()
        assert len(told) == shown


def test_watch_where_nobody_looks_shows_nothing(monkeypatch):
    told = watched(monkeypatch, in_notebook=False)
    with slowly(0.02).start() as run:
        run.watch(after=0)()
        run.insert("x", [(1,)])
        run.advance()
    assert told == []


@pytest.mark.parametrize("after", [-1, "soon", True])
def test_watching_after_no_number_of_seconds_is_refused(after):
    with slowly(0).start() as run, pytest.raises(tm.TidemillError, match="expected seconds, 0 or more"):
        run.watch(after=after)
