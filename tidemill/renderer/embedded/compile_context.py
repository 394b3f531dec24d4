"""The operators that are made before an operator, as it may use them."""

from __future__ import annotations

from typing import Protocol

from tidemill.dataflow.nodes import Node
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.operators.arrange import ArrangeOperator


class CompileContext(Protocol):
    """The operators made so far, for the one being made."""

    interner: Interner

    def arrangement(self, node: Node) -> ArrangeOperator:
        """Return the operator that has the arrangement a node stands for, wherever it was entered from."""
        ...
