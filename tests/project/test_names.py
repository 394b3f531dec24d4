"""A class has a name of its own in the package, so that what is read in one file means the same in all."""

import ast
from collections import defaultdict

from support.imports import ROOT

OPEN = {
    "Aggregate", "AggregateCall", "FailureError", "Filter", "FloatSums", "Frame", "Join", "Layout", "Mark",
    "Move", "Names", "Node", "OneRow", "Rows", "Run", "Scope", "Select", "Source", "SpillStore", "Summary", "TopK",
    "Window", "_End", "_Framed", "_Here", "_Open", "_Reader", "_Setting", "_Sum",
}  # fmt: skip
"""Names that several classes have still: to become fewer."""


def test_names_of_classes_are_unique():
    places = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(ROOT.parent)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1 and name not in OPEN} == {}
