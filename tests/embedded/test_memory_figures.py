"""What a run's memory is taken by, as `run.metrics()` tells it."""

import pytest

import tidemill as tm


def counts(**how):
    flow = tm.Dataflow("counts")
    flow.output("n", flow.input("x", {"s": "string"}).count("n"), **how)
    return flow


def test_the_figures_are_those_of_what_is_held(tmp_path):
    with counts().start(tm.Embedded(tmp_path)) as run:
        run.insert("x", [(f"a string of some length, with the number {i}",) for i in range(5000)])
        run.advance()
        metrics = run.metrics()
        memory = metrics.memory
        assert memory.interned == 5000
        assert 5000 * 90 < memory.interned_bytes < 5000 * 300
        assert memory.unread == {"n": 5000}
        assert memory.unread_bytes == 5000 * 4 * 8
        assert memory.held_bytes == sum(o.bytes for o in metrics) > 10_000 * 4 * 8
        assert memory.spilled_bytes == 0
        run.changes("n")
        run.spill()
        memory = run.metrics().memory
        assert memory.unread == {}
        assert memory.spilled_bytes == sum(p.stat().st_size for p in (tmp_path / "cold").iterdir())
        assert memory.held_bytes < 200_000


def test_as_a_table_and_as_a_dataframe():
    with counts().start() as run:
        run.insert("x", [(str(i),) for i in range(2000)])
        run.advance()
        text = repr(run.metrics())
        assert text.splitlines()[0].endswith("seconds    memory  line")
        assert "interned 2,000 (" in text
        assert "unread changes 2,000 (64.0 kB), held " in text
        assert text.endswith("on the disk 0 B")
        pytest.importorskip("pandas")
        frame = run.metrics().to_pandas()
        assert list(frame["kind"]) == ["Input", "Reduce", "Output"]
        assert int(frame["bytes"].sum()) == run.metrics().memory.held_bytes


def test_the_reference_engine_has_them_too():
    with counts().start(tm.Reference()) as run:
        run.insert("x", [("a",)])
        run.advance()
        assert run.metrics().memory.interned == 0
        assert len(run.metrics().to_pandas()) == len(run.metrics())
