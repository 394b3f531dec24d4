"""Steps as spans of OpenTelemetry, by its SDK."""

import sys

import pytest

import tidemill as tm
from tidemill.errors import TidemillError


@pytest.fixture
def exported():
    pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.trace import TracerProvider, export  # noqa: PLC0415 - where it is installed
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: PLC0415

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    return exporter, provider.get_tracer("test")


def test_a_step_is_a_span_in_what_it_was_taken_in(exported):
    exporter, tracer = exported
    flow = tm.Dataflow("shop")
    flow.output("n", flow.input("orders", {"customer": "string"}).count("n"))
    seconds: list[float] = []
    with flow.start() as run:
        run.on_step(lambda step: seconds.append(step.seconds))
        stop = run.to_opentelemetry(tracer)
        with tracer.start_as_current_span("refresh"):
            run.insert("orders", [("ann",)])
            run.advance()
        run.advance()
        stop()
        run.advance()
    first, around, second = exporter.get_finished_spans()
    assert (first.name, around.name, second.name) == ("tidemill.step", "refresh", "tidemill.step")
    assert first.parent == around.context
    assert second.parent is None
    assert second.attributes == {
        "tidemill.flow": "shop", "tidemill.step": 2,
        "tidemill.input.orders": "Antichain(2)", "tidemill.output.n": "Antichain(2)",
    }  # fmt: skip
    assert [first.end_time - first.start_time, second.end_time - second.start_time] == [
        int(1e9 * s) for s in seconds[:2]
    ]
    assert around.start_time <= first.end_time <= around.end_time


def test_without_opentelemetry(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", {"i": "int64"}))
    with flow.start() as run, pytest.raises(TidemillError, match=r"pip install 'tidemill\[otel\]'"):
        run.to_opentelemetry()
