"""What is told to the standard library's loggers below `tidemill`: by area, and nothing where nobody listens."""

import logging
import subprocess
import sys

import pytest

import tidemill as tm
from tidemill.renderer.runs import stepper


def counts():
    flow = tm.Dataflow("counts")
    flow.output("n", flow.input("x", {"k": "int64"}).count("n"), changes=False)
    return flow


def said(caplog, area):
    return [(r.levelname, r.getMessage()) for r in caplog.records if r.name == f"tidemill.{area}"]


def test_loads_and_steps(caplog, monkeypatch):
    caplog.set_level(logging.DEBUG, "tidemill")
    with counts().start() as run:
        run.insert("x", [(1,), (2,)])
        run.advance()
        monkeypatch.setattr(stepper, "SLOW", 0.0)
        monkeypatch.setattr(stepper, "_MANY", 1)
        run.insert("x", [(1,)])
        run.advance()
    assert said(caplog, "loads") == [
        ("DEBUG", "counts: 2 updates were put into 'x'"),
        ("INFO", "counts: 1 updates were put into 'x'"),
    ]
    steps = said(caplog, "steps")
    assert [level for level, _ in steps] == ["DEBUG", "INFO"]
    assert steps[0][1].startswith("counts: step 1 took 0.")


def test_merges_of_spines(caplog):
    caplog.set_level(logging.DEBUG, "tidemill.spines")
    with counts().start() as run:
        for i in range(4):
            run.insert("x", [(i * 1000 + j,) for j in range(1000)])
            run.advance()
    assert ("DEBUG", "batches of 1000 and 1000 updates were merged into one of 2000") in said(caplog, "spines")


def test_state_spills_checkpoints_and_going_on(caplog, tmp_path):
    caplog.set_level(logging.INFO, "tidemill")
    with counts().start(tm.Embedded(tmp_path, in_memory=10)) as run:
        run.insert("x", [(i,) for i in range(50)])
        run.advance()
        run.checkpoint()
        run.insert("x", [(1,)])
        run.advance()
    with counts().start(tm.Embedded(tmp_path)) as run:
        run.save(tmp_path / "saved")
    tm.load(tmp_path / "saved", counts()).close()
    messages = [message for _, message in said(caplog, "state")]
    assert messages[0] == f"{tmp_path}: a new state is begun"
    assert messages[1].startswith(f"{tmp_path}: a checkpoint of step 1 took 0.")
    assert messages[2].startswith(f"{tmp_path}: goes on after step 2; 1 steps of 1 updates were repeated, in 0.")
    assert messages[3] == f"{tmp_path / 'saved'}: goes on from what was saved there"
    assert any(" updates of 1/out were written to 1-out-0000" in m for _, m in said(caplog, "spills")), caplog.messages


def test_steps_tried_again_on_spark(caplog):
    pytest.importorskip("pyspark")
    from tidemill.renderer.spark import failures, retries

    tries = []

    def take(_):
        tries.append(1)
        if len(tries) < 3:
            raise RuntimeError(failures._LOST)
        return "done"

    assert retries.retried(counts().graph, take) == "done"
    assert said(caplog, "spark") == [
        ("WARNING", f"executors were lost, and results with them: the step is tried again ({i})") for i in (1, 2)
    ]


@pytest.mark.slow
def test_nothing_is_said_unless_somebody_listens():
    code = """
import tidemill as tm, warnings
flow = tm.Dataflow()
flow.output("o", flow.input("x", {"k": "int64"}))
with flow.start() as run:
    run.insert("x", [(i,) for i in range(200_000)])
    run.advance()
import logging
logging.getLogger("tidemill.spark").warning("not shown")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
