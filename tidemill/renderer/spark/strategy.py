"""The ways to compute a step: fast first, and with care where Spark raised an error that may not be one.

Catalyst computes what no row that counts depends on: an expression of a row that another update takes away, a sum whose
parts overflow though the whole does not. So its errors are not the last word. The careful strategy leaves everything
that may fail to the embedded engine's kernels, and gives these consolidated updates only. Between the two, where floats
are too far apart for Catalyst to add them up in a few limbs, it does so in more, and then the kernels do that alone.
"""

from __future__ import annotations

from typing import Final, Protocol

from pyspark.sql import DataFrame

from tidemill.dataflow.nodes import Node, Reduce, Threshold
from tidemill.expressions.bound import Bound, BoundColumn
from tidemill.renderer.spark import native
from tidemill.renderer.spark.exact_squares import FARTHER, NEAREST, FloatSums
from tidemill.renderer.spark.frames import Frame, consolidated
from tidemill.renderer.spark.keyed_tasks import Layout
from tidemill.renderer.spark.scalars import native_sql


class Strategy(Protocol):
    """What Catalyst computes and what the embedded engine's kernels do, and from which updates."""

    @property
    def floats(self) -> FloatSums | None:
        """How Catalyst adds up floats; None where the kernels do."""

    def sql(self, bound: Bound) -> str | None:
        """Return an expression as Spark SQL; None where the kernels have to compute it."""

    def prepared(self, frame: Frame) -> Frame:
        """Return the updates from which something that may fail is computed."""

    def is_native(self, node: Threshold | Reduce, frame: Frame) -> bool:
        """Return whether Catalyst may compute a keyed operator's output."""

    def summed(self, node: Node, frame: Frame, layout: Layout) -> DataFrame | None:
        """Return sums for each key and time as `native.summed` does; None where the kernels have to add up."""


class _Fast:
    """In Catalyst wherever it means the same, from updates as they come."""

    def __init__(self, floats: FloatSums | None) -> None:
        self.floats = floats

    def sql(self, bound: Bound) -> str | None:
        return native_sql(bound)

    def prepared(self, frame: Frame) -> Frame:
        return frame

    def is_native(self, node: Threshold | Reduce, frame: Frame) -> bool:
        if isinstance(node, Reduce):
            return native.is_native(node, frame, self.floats)
        return node.function is None

    def summed(self, node: Node, frame: Frame, layout: Layout) -> DataFrame | None:
        return native.summed(node, frame, layout)


class _Careful:
    """In the kernels wherever something may fail, from consolidated updates; what fails then is an error."""

    floats = None

    def sql(self, bound: Bound) -> str | None:
        return native_sql(bound) if isinstance(bound, BoundColumn) else None

    def prepared(self, frame: Frame) -> Frame:
        return consolidated(frame)

    def is_native(self, node: Threshold | Reduce, frame: Frame) -> bool:  # noqa: ARG002 - see Strategy
        return False

    def summed(self, node: Node, frame: Frame, layout: Layout) -> DataFrame | None:  # noqa: ARG002
        return None


FAST: Final[Strategy] = _Fast(NEAREST)
LONG_FLOATS: Final[Strategy] = _Fast(FARTHER)
KERNELS_FOR_FLOATS: Final[Strategy] = _Fast(None)
CAREFUL: Final[Strategy] = _Careful()
AFTER_FLOATS: Final = {FAST: LONG_FLOATS, LONG_FLOATS: KERNELS_FOR_FLOATS}
"""What to try next where floats could not be added up."""
