"""What tells one definition of a view from another, whatever else is in the dataflow."""

from __future__ import annotations

import hashlib

from tidemill.dataflow.nodes import Node


def definition(node: Node) -> str:
    """Return a digest of what a node computes, from its inputs on."""
    order: dict[Node, int] = {}
    stack = [node]
    while stack:
        here = stack.pop()
        if here not in order:
            order[here] = here.id
            stack += here.inputs
    numbers = {n: i for i, n in enumerate(sorted(order, key=lambda n: n.id))}
    text = "\n".join(
        f"{n.kind} {n.schema} [{n.describe()}] {[numbers[i] for i in n.inputs if i in numbers]}" for n in numbers
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]
