"""The registry of the embedded engine's operators: each module of operators registers its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

from tidemill.dataflow.nodes import Node
from tidemill.renderer.embedded.schedule import Operator, Region
from tidemill.renderer.runs.registry import Registry

OperatorFactory: TypeAlias = Callable[[Any, Region, Any], Operator]

FACTORIES: Final = Registry[OperatorFactory]("embedded engine")
"""For each class of nodes a function that makes an operator of the node, its region and the `CompileContext`."""

C = TypeVar("C", bound=Callable[..., Operator])


def operator_of(*kinds: type[Node], interner: bool = False) -> Callable[[C], C]:
    """Return the decorator of an operator's class, made of a node and its region and, if it asks, of the interner."""

    def add(operator: C) -> C:
        if interner:
            FACTORIES(*kinds)(lambda node, region, made: operator(node, region, made.interner))
        else:
            FACTORIES(*kinds)(lambda node, region, _: operator(node, region))
        return operator

    return add
