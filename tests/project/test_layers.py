"""Imports point one way: expressions <- dataflow <- boundary, collections <- algorithms; renderers; one flow above all."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tidemill

ROOT = Path(tidemill.__file__).parent

MAY_IMPORT = {
    "site": set(),
    "errors": {"site"},
    "expressions": {"errors", "site"},
    "dataflow": {"errors", "site", "expressions"},
    "boundary": {"errors", "site", "expressions", "dataflow"},
    "collections": {"errors", "site", "expressions", "dataflow", "boundary"},
    "algorithms": {"errors", "site", "expressions", "dataflow", "boundary", "collections"},
    "renderer": {"errors", "site", "expressions", "dataflow", "boundary", "collections"},
    "flow": {"errors", "site", "expressions", "dataflow", "boundary", "collections", "algorithms", "renderer"},
    "testing": {
        "errors",
        "site",
        "expressions",
        "dataflow",
        "boundary",
        "collections",
        "algorithms",
        "renderer",
        "flow",
    },
}


def imports():
    for path in ROOT.rglob("*.py"):
        own = path.relative_to(ROOT).with_suffix("").parts
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            names = [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            for name in names:
                if name and name.startswith("tidemill."):
                    yield own, (*name.split(".")[1:], ""), node.lineno


def test_imports_point_one_way():
    wrong = [
        f"{'/'.join(own)}.py:{line} imports {'.'.join(other)}"
        for own, other, line in imports()
        if own[0] in MAY_IMPORT and other[0] not in MAY_IMPORT[own[0]] | {own[0]}
    ]
    assert not wrong


def test_engines_do_not_know_each_other():
    engines = {"reference", "embedded", "spark", "diagram"}
    wrong = [
        (own, other)
        for own, other, _ in imports()
        if own[:1] == other[:1] == ("renderer",) and own[1] in engines and other[1] in engines - {own[1]}
    ]
    # A distributed engine runs the embedded engine's kernels; nobody else borrows.
    assert [w for w in wrong if (w[0][1], w[1][1]) != ("spark", "embedded")] == []


@pytest.mark.parametrize("heavy", ["pyspark", "pandas", "sqlglot", "networkx", "hypothesis", "duckdb", "polars"])
def test_importing_tidemill_imports_only_what_it_needs(heavy):
    code = f"import sys, tidemill; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_star_import_shadows_no_builtin():
    import builtins

    assert not set(tidemill.__all__) & set(dir(builtins))
    assert all(hasattr(tidemill, name) for name in tidemill.__all__)
