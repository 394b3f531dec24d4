"""The compile context: the operators made so far, as the constructor of the next one may look them up."""

from __future__ import annotations

from typing import Protocol

from tidemill.dataflow.nodes import Node
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.operators.arrange import ArrangeOperator


class CompileContext(Protocol):
    """Looks up the operators made so far."""

    interner: Interner

    def arrangement(self, node: Node) -> ArrangeOperator:
        """Return the operator that has the arrangement a node stands for, wherever it was entered from."""
        ...
