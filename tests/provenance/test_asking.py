"""Asking a run why: which runs can be asked, and what is said to those who ask wrongly."""

import json

import pytest
from support.reasons import BUILDS, hop, started
from support.running import KV, new_flow

import tidemill as tm
from tidemill.errors import EngineError, GraphError, RowError, TimeError


def test_a_run_has_to_be_started_so():
    flow = new_flow()
    flow.output("out", flow.input("a", KV))
    with flow.start() as run:
        run.advance()
        with pytest.raises(EngineError, match=r"keeps no inputs to look for reasons in: start it with why=True"):
            run.why("out", (1, 2))


def test_a_run_that_cannot_be_asked_has_nothing_more():
    flow, run = started(BUILDS["a join"])
    with run, flow.start() as plain:
        assert list(plain.graph.outputs) == ["out"]
        assert list(run.graph.outputs) == ["out", "a (kept for why)", "b (kept for why)"]


def test_what_inputs_held_is_shown_nowhere_else(tmp_path):
    _, run = started(BUILDS["a join"], tm.Embedded(tmp_path / "state"))
    with run:
        run.to_changelog(tmp_path / "log")
        run.insert("a", [(0, 1)])
        run.insert("b", [(1, 2)])
        run.advance()
        assert "kept for why" not in repr(run)
        assert "output 'out', complete up to Antichain(1)" in repr(run)
        assert [path.name for path in (tmp_path / "log").iterdir() if path.is_dir() and path.name[0] != "."] == ["out"]
        run.record(tmp_path / "record")
        data = json.loads((tmp_path / "record").read_text())["data"]
        named = {o["name"]: str(o["id"]) for o in data["operators"] if o["kind"] == "Output"}
        assert set(data["records"]) == {named["out"]}
        with pytest.raises(tm.errors.UnknownNameError, match="no output 'a "):
            run.snapshot("a (kept for why)")
        assert run.why("out", (0, 2)).rows == {"a": [(0, 1)], "b": [(1, 2)]}


def test_what_is_asked_has_to_be_a_row_of_the_output_at_a_time_that_can_be_read():
    _, run = started(BUILDS["a join"])
    with run:
        with pytest.raises(TimeError, match="complete at no time yet"):
            run.why("out", (1, 2))
        run.advance()
        with pytest.raises(RowError):
            run.why("out", (1, 2, 3))
        with pytest.raises(RowError):
            run.why("out", ("one", 2))
        with pytest.raises(TimeError, match="is not complete at 5"):
            run.why("out", (1, 2), at=5)


AFTER_OTHERS = {
    "delay": lambda rows: rows.delay(1),
    "a watermark": lambda rows: rows.late_rows("v"),
}


@pytest.mark.parametrize("called", AFTER_OTHERS)
def test_what_gives_rows_by_when_others_came_is_refused_by_the_name_that_users_know(called):
    flow = new_flow()
    flow.output("out", AFTER_OTHERS[called](flow.input("a", KV, watermark=("v", 1))))
    with pytest.raises(
        GraphError, match=rf"why=True: {called} \(.*test_asking.py:\d+\) gives rows by when others came"
    ):
        flow.start(why=True)


def test_a_durable_run_that_goes_on_can_be_asked(tmp_path):
    flow = new_flow()
    flow.output("out", hop(flow.input("a", KV), flow.input("b", KV)))
    with flow.start(tm.Embedded(state=tmp_path), why=True) as run:
        run.insert("a", [(0, 1)])
        run.insert("b", [(1, 2)])
        run.advance()
    with flow.start(tm.Embedded(state=tmp_path), why=True) as run:
        assert run.why("out", (0, 2)).rows == {"a": [(0, 1)], "b": [(1, 2)]}


def test_a_saved_run_that_can_be_asked_why_is_loaded_as_one(tmp_path):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", {"i": "int64"}).filter("i > 1"))
    with flow.start(why=True) as run:
        run.insert("x", [(1,), (2,)])
        run.advance()
        run.save(tmp_path / "saved")
    with tm.load(tmp_path / "saved", flow, why=True) as again:
        assert again.why("o", (2,)).rows == {"x": [(2,)]}
        again.insert("x", [(3,)])
        again.advance()
        assert again.why("o", (3,)).rows == {"x": [(3,)]}
    with pytest.raises(tm.errors.StateError, match="with why=True if that run was started so"):
        tm.load(tmp_path / "saved", flow)
