"""What cannot be written down is refused whole; batches are delivered one after the other; who follows a run hears all."""

import pytest

import tidemill as tm
from tidemill.renderer.durable import journal
from tidemill.renderer.durable.recorder import StepRecorder


def counts():
    flow = tm.Dataflow("counts")
    flow.output("n", flow.input("x", {"k": "string"}).count("n"))
    return flow


def test_rows_that_the_journal_cannot_take_are_nowhere(tmp_path, monkeypatch):
    def failing(*_):
        raise MemoryError

    flow = counts()
    with flow.start(tm.Embedded(tmp_path)) as run:
        run.insert("x", [("a",)])
        with monkeypatch.context() as patch:
            patch.setattr(journal, "_packed", failing)
            with pytest.raises(MemoryError):
                run.insert("x", [("b",)])
        run.insert("x", [("c",)])
        run.advance()
        assert list(run.snapshot("n")) == [("a", 1), ("c", 1)]
    with flow.start(tm.Embedded(tmp_path)) as run:
        assert list(run.snapshot("n")) == [("a", 1), ("c", 1)]


@pytest.mark.parametrize("durable", [True, False])
def test_a_batch_may_not_deliver_another_one(tmp_path, durable):
    flow = counts()

    def outer(run):
        run.insert("x", [("a",)])
        run.deliver("inner", 1, lambda run: run.insert("x", [("b",)]))

    with flow.start(tm.Embedded(tmp_path) if durable else None) as run:
        with pytest.raises(tm.errors.StepError, match="may not deliver another one"):
            run.deliver("outer", 1, outer)
        assert run.deliver("outer", 1, lambda run: run.insert("x", [("a",)]))
        assert not run.deliver("outer", 1, lambda run: run.insert("x", [("a",)]))
        assert list(run.snapshot("n")) == [("a", 1)]


def test_a_step_is_told_whatever_becomes_of_the_checkpoint_after_it(tmp_path, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    told = []
    with counts().start(tm.Embedded(tmp_path)) as run:
        run.log_events()
        run.on_step(told.append)
        run.insert("x", [("a",)])
        with monkeypatch.context() as patch:
            patch.setattr(StepRecorder, "checkpoint_if_due", interrupted)
            with pytest.raises(KeyboardInterrupt):
                run.advance()
        assert [step.number for step in told] == [event.info.number for event in run.events] == [1]
        run.advance()
        assert [step.number for step in told] == [1, 2]
