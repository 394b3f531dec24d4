"""The ways to compute a step: fast first, and with care where Spark raised an error that may not be one.

Catalyst computes what no row that counts depends on: an expression of a row that another update takes away, a sum whose
parts overflow though the whole does not. So its errors are not the last word. The careful strategy leaves everything
that may fail to the embedded engine's kernels, and gives these consolidated updates only. Between the two, where floats
are too far apart for the limbs in which Catalyst adds them up, the kernels do that alone.
"""

from __future__ import annotations

from typing import Final

import attrs
from pyspark.sql import DataFrame

from tidemill.dataflow.nodes import Node, Reduce, Threshold
from tidemill.expressions.bound import Bound, BoundColumn
from tidemill.renderer.spark import native
from tidemill.renderer.spark.frames import Frame, consolidated
from tidemill.renderer.spark.keyed_tasks import Layout
from tidemill.renderer.spark.native_windows import native_windows
from tidemill.renderer.spark.scalars import native_sql


@attrs.frozen
class Strategy:
    """Whether Catalyst or the embedded engine's kernels compute something, and from which updates."""

    name: str
    trusts_catalyst: bool = True
    """Whether what may fail is Catalyst's, from updates as they come; else the kernels', from consolidated ones."""
    adds_floats: bool = True
    """Whether Catalyst adds up floats."""

    def sql(self, bound: Bound) -> str | None:
        """Return an expression as Spark SQL; None where the kernels have to compute it."""
        return native_sql(bound) if self.trusts_catalyst or isinstance(bound, BoundColumn) else None

    def prepared(self, frame: Frame) -> Frame:
        """Return the updates from which something that may fail is computed."""
        return frame if self.trusts_catalyst else consolidated(frame)

    def is_native(self, node: Threshold | Reduce, frame: Frame) -> bool:
        """Return whether Catalyst may compute a keyed operator's output."""
        if not self.trusts_catalyst:
            return False
        return native.is_native(node, frame, floats=self.adds_floats) if isinstance(node, Reduce) else not node.function

    def windows(self, node: Reduce, frame: Frame) -> Frame | None:
        """Return the values of window calls as `native_windows` does; None where the kernels have to find them."""
        return native_windows(node, frame, floats=self.adds_floats) if self.trusts_catalyst else None

    def summed(self, node: Node, frame: Frame, layout: Layout) -> DataFrame | None:
        """Return sums for each key and time as `native.summed` does; None where the kernels have to add up."""
        return native.summed(node, frame, layout) if self.trusts_catalyst else None


FAST: Final = Strategy("fast")
KERNELS_FOR_FLOATS: Final = Strategy("floats added up by the kernels", adds_floats=False)
CAREFUL: Final = Strategy("with care", trusts_catalyst=False, adds_floats=False)
