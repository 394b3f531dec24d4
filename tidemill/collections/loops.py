"""Loops: ``iterate`` over one collection, and what it shares with blocks of several bindings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidemill.collections.builder import Builder, all_nullable
from tidemill.collections.sets import aligned
from tidemill.dataflow.nodes import Concat, Feedback, Leave, LoopLimits, Negate, Node, Variable
from tidemill.dataflow.scopes import Scope
from tidemill.errors import GraphError

DEFAULT_ERROR_AT: Final = 10_000
"""Where a loop without a limit of its own gives up, so that nothing loops for ever."""


def loop_limits(error_at: Any, return_at: int | None) -> LoopLimits:
    """Return the limits a user asked for; ``...`` for ``error_at`` means that nothing was said, None no limit."""
    if return_at is not None:
        if error_at is not ... and error_at is not None:
            msg = f"error_at={error_at} and return_at={return_at} exclude each other: give one"
            raise GraphError(msg)
        return LoopLimits(return_at=_positive("return_at", return_at))
    if error_at is ...:
        return LoopLimits(error_at=DEFAULT_ERROR_AT)
    return LoopLimits() if error_at is None else LoopLimits(error_at=_positive("error_at", error_at))


def _positive(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        msg = f"{name}={value!r}: expected a number of iterations, at least 1"
        raise GraphError(msg)
    return value


def iterate(builder: Builder, start: Node, body: Callable[[Node], Node], limits: LoopLimits, name: str) -> Node:
    """Return the limit of applying the body again and again, beginning with ``start``.

    The variable is ``enter(start) + feedback`` and what is fed back is ``body(variable) - enter(start)``: entering
    makes the start visible in every iteration, so it has to be taken out again.
    """
    inside(builder.current, start, name)
    scope = builder.graph.scope("iterate", name, builder.current)
    with builder.inside(scope):
        entered = builder.enter(start, scope)
        schema = all_nullable(start.schema)  # what the body makes of it is not known yet, and it may make NULLs
        variable = builder.graph.add(Variable, scope=scope, name=name, schema=schema)
        value = builder.add(Concat, entered, variable, name=name, schema=schema)
        result = aligned(builder, body(value), schema, f"the body of {name!r}")
        inner = builder.enter(inside(scope, result, name), scope)
        change = builder.add(Concat, inner, builder.add(Negate, entered), schema=schema)
        builder.add(Feedback, change, name=name, schema=schema, variable=variable, limits=limits)
    return leave(builder, inner, limits, name)


def inside(scope: Scope, node: Node, name: str) -> Node:
    """Return the node, once it is known to be of this scope or of one around it; ``name`` is for the error."""
    if not scope.within(node.scope):
        msg = (
            f"{name!r} in scope {scope.path} uses {node.where} of scope {node.scope.path}: use a collection of this "
            "block or of one around it; what an inner block found is returned from its body"
        )
        raise GraphError(msg)
    return node


def leave(builder: Builder, inner: Node, limits: LoopLimits, name: str) -> Node:
    """Return a loop's node as seen just outside the loop: its limit, or its state at ``return_at``."""
    outer = inner.scope.parent
    assert outer is not None, "only loops are left"
    return builder.graph.add(Leave, scope=outer, inputs=(inner,), name=name, schema=inner.schema, limits=limits)
