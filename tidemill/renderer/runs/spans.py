"""Steps as spans of OpenTelemetry."""

from __future__ import annotations

import time
from typing import Any

from tidemill.errors import TidemillError
from tidemill.renderer.runs.step_events import Callback, StepInfo


def span_of_each(flow: str, tracer: Any | None) -> Callback:
    """Return what makes a span of each step that it is told of: a child of what the thread is in."""
    if tracer is None:
        try:
            from opentelemetry import trace  # noqa: PLC0415 - an extra
        except ImportError:
            msg = "to_opentelemetry() needs OpenTelemetry, which is not installed: pip install 'tidemill[otel]'"
            raise TidemillError(msg) from None
        tracer = trace.get_tracer("tidemill")

    def tell(step: StepInfo) -> None:
        end, frontiers = time.time_ns(), {"input": step.inputs, "output": step.frontiers}
        said: dict[str, Any] = {"tidemill.flow": flow, "tidemill.step": step.number}
        said |= {f"tidemill.{kind}.{n}": str(upto) for kind, of in frontiers.items() for n, upto in of.items()}
        tracer.start_span("tidemill.step", start_time=end - int(1e9 * step.seconds), attributes=said).end(end)

    return tell
