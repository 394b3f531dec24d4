"""One class for all runs: where an engine, or how it was started, lacks something, the error says what to do."""

import pytest
from support.running import KV, new_flow, start

import tidemill as tm
from tidemill.errors import EngineError, StateError


def build():
    flow = new_flow()
    flow.output("o", flow.input("x", KV))
    return flow


def test_all_runs_are_of_one_class(engine, tmp_path):
    runs = [start(build(), engine), build().start(tm.Embedded(tmp_path)), build().start(tm.Spark(None))]
    for run in runs:
        assert type(run) is tm.Run
        run.close()


@pytest.mark.parametrize("name", ["checkpoint", "to_changelog"])
def test_without_state(engine, name):
    with (
        start(build(), engine) as run,
        pytest.raises(StateError, match=r"durable state: .*Embedded\(state='folder/'\)"),
    ):
        getattr(run, name)(*(["folder"] if name == "to_changelog" else []))


def test_without_a_place_to_spill_to(engine):
    with start(build(), engine) as run, pytest.raises(StateError, match=r"tm.Embedded\(in_memory=...\) or state="):
        run.spill()


def test_streams_are_for_spark(engine):
    with start(build(), engine) as run:
        with pytest.raises(EngineError, match=r"tm.Spark\(spark\); others run.deliver"):
            run.foreach_batch("x")
        with pytest.raises(tm.errors.UnknownNameError, match="no input 'y'"):
            run.foreach_batch("y")


def test_the_reference_engine_saves_nothing(tmp_path):
    with start(build(), "reference") as run, pytest.raises(EngineError, match="start the run on the embedded engine"):
        run.save(tmp_path / "state")


@pytest.mark.parametrize("key", [None, ["k"]])
def test_batches_count_once_in_the_process(engine, key):
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", KV, key=key))

    def put_and_fail(run):
        run.insert("x", [(3, 3)])
        raise ZeroDivisionError

    with start(flow, engine) as run:
        run.insert("x", [(0, 0)])
        with pytest.raises(ZeroDivisionError):
            run.deliver("s", 0, put_and_fail)
        for batch in (0, 0, 1):
            run.deliver("s", batch, lambda r, batch=batch: r.insert("x", [(batch + 1, 1)]))
        assert sorted(run.snapshot("o")) == [(0, 0), (1, 1), (2, 1)]
        with pytest.raises(tm.errors.StepError, match="may not take a step"):
            run.deliver("s", 2, lambda r: r.advance())


NO_PATH = "expected the path of a file to"
BAD_PATHS = [(None, NO_PATH), (7, NO_PATH), ("", NO_PATH), ("a\0b", NO_PATH), (b"x", NO_PATH)]


@pytest.mark.parametrize(("path", "said"), BAD_PATHS)
def test_what_is_no_path_of_a_file(path, said):
    flow = build()
    with start(flow, "embedded") as run:
        for write in (run.save, run.record):
            with pytest.raises(StateError, match=f"{said} write, a string or a Path"):
                write(path)
    with pytest.raises(StateError, match=f"{said} read, a string or a Path"):
        tm.load(path, flow)


def test_a_file_that_cannot_be_written_is_not_half_there(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with start(build(), "embedded") as run:
        for path in (tmp_path / "nowhere" / "x", tmp_path / "file" / "x", tmp_path / "folder"):
            for write in (run.save, run.record):
                with pytest.raises(
                    StateError, match=r"cannot be written \(.+\): expected a path in a folder that is there"
                ):
                    write(path)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["file", "folder"]
