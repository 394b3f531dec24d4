"""The public API as lines of text: a name and its parameters each, as tests/project/public_api.txt holds them.

After a change: ``PYTHONPATH=tests/lib python -m support.public_api > tests/project/public_api.txt``. A line that goes is something that
users lose, a new parameter changes its line.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any

import tidemill as tm

NAMED_AS_BUILTINS = {"abs", "ascii", "chr", "list", "max", "min", "round", "sum"}
"""Kept out of ``tm.__all__``."""
MADE_BY_METHODS = {"Collection", "Grouped", "LetRec", "Metrics", "Rows", "Run", "StepInfo", "Subscription"} | {
    "Updates",
    "Why",
}
"""Classes that users hold and do not make."""
BETWEEN_LAYERS = {
    "Aggregate": {"argument", "condition", "function", "input_expression", "order_by"},
    "Collection": {"aligned_to", "builder", "filter_by", "map_columns", "node", "reduce_by"},
    "Dataflow": {"arrange", "attempt", "collection", "current", "enter", "graph", "inside", "meeting_scope", "own"},
    "Embedded": {"load", "start", "takes"},
    "Expr": {"label", "name", "parts", "read_from", "reads_text", "with_parts"},
    "Grouped": {"collection", "keys"},
    "LetRec": {"builder", "node_of"},
    "Reference": {"start", "takes"},
    "Rows": {"in_no_order", "to_frame"},
    "Run": {"begin", "compiled", "explain_by", "go_on_from", "graph", "input_frontiers", "passes", "progress", "read"}
    | {"executor", "since", "since_at"},
    "Spark": {"load", "start", "start_after", "takes"},
    "Subscription": {"begin", "call", "due", "go_on_from", "hub", "is_over", "wanted"},
    "Updates": {"in_no_order", "to_frame"},
    "When": {"branches"},
    "Window": {"exclusion", "frame", "given_frame", "label", "order", "partition", "parts", "text"},
    "WindowCall": {"distinct", "function", "window"},
    "WindowFunction": {"arguments", "function", "ignore_nulls"},
}
"""What other parts of tidemill use, and users need not know."""


def public_api() -> list[str]:
    """Return a line for each public name, and for each public method and attribute of what users hold."""
    found = set()
    for prefix, module in {"tm": tm, "tm.errors": tm.errors, "tm.graphs": tm.graphs, "tm.testing": tm.testing}.items():
        for name in {*module.__all__, *(NAMED_AS_BUILTINS if module is tm else ())}:
            found.add(f"{prefix}.{name}{_parameters(getattr(module, name))}")
    of_users = held()
    for name, value in of_users.items():
        known = BETWEEN_LAYERS.get(name, set()) | set(dir(Sequence) if isinstance(value, Sequence) else ())
        if name in {"Aggregate", "When", "WindowCall", "WindowFunction"}:
            known |= set(dir(of_users["Expr"]))
        found |= {line for member, line in _members(name, value) if member not in known}
    return sorted(found)


def held() -> dict[str, Any]:
    """Return what users hold, one of each kind, by the name of the kind."""
    flow = tm.Dataflow("public")
    x = flow.input("x", {"k": "string", "v": "int64"}, key="k")
    with flow.letrec() as block:
        block.define("binding", block.declare("binding", x.schema).concat(x).distinct())
    flow.output("out", x)
    steps: list[tm.StepInfo] = []
    with flow.start(tm.Spark(None)) as run, flow.start(why=True) as asked:
        run.on_step(steps.append)
        run.advance()
        asked.advance()
        return {
            "Aggregate": tm.count(),
            "Antichain": run.frontier("out"),
            "Collection": x,
            "DType": x.schema.dtypes[0],
            "Dataflow": flow,
            "Embedded": tm.Embedded(),
            "Expr": tm.col("k"),
            "Field": next(iter(x.schema)),
            "Grouped": x.group_by("k"),
            "LetRec": block,
            "Metrics": run.metrics(),
            "OperatorMetrics": run.metrics()[0],
            "Reference": tm.Reference(),
            "Rows": run.snapshot("out"),
            "Run": run,
            "Schema": x.schema,
            "Spark": tm.Spark(None),
            "StepInfo": steps[0],
            "Subscription": run.subscribe("out"),
            "Updates": run.changes("out"),
            "Views": tm.Views("state"),
            "Why": asked.why("out", ("", 0)),
            "When": tm.when(tm.col("k") == tm.lit(""), 1),
            "Window": tm.Window(),
            "WindowCall": tm.rank().over(tm.Window()),
            "WindowFunction": tm.rank(),
        }


def _members(of: str, value: Any) -> Iterator[tuple[str, str]]:
    for name in dir(value):
        if not name.startswith("_"):
            found = inspect.getattr_static(type(value), name, None)
            yield name, f"{of}.{name}{_parameters(getattr(found, '__func__', found))}"


def _parameters(value: Any) -> str:
    """Return what a function or a class that users call takes, without types; of all else nothing."""
    made_by_methods = isinstance(value, type) and (
        issubclass(value, BaseException) or value.__name__ in MADE_BY_METHODS
    )
    if not callable(value) or made_by_methods:
        return ""
    signature = inspect.signature(value)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    text = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return re.sub(r"<function ([\w.<>]+) at \w+>", r"\1", text)


if __name__ == "__main__":
    print("\n".join(public_api()))  # noqa: T201 - the test of the list runs none of this
