"""What an operator may ask of the operators that are made before it."""

from __future__ import annotations

from typing import Protocol

from tidemill.dataflow.nodes import Node
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.operators.arrange import ArrangeOperator


class CompileContext(Protocol):
    """What a new operator may ask of what is made so far."""

    interner: Interner

    def arrangement(self, node: Node) -> ArrangeOperator:
        """Return the operator that has the arrangement a node stands for, wherever it was entered from."""
        ...
