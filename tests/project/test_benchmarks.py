"""The table of benchmarks names functions that there are, with their sizes; pages name benchmarks that are in it."""

import ast
import re
from pathlib import Path

import pytest

from benchmarks.table import TABLE
from benchmarks.workloads import ALL

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"python -m benchmarks((?: [A-Za-z]\w*(?!\w*=))+)")


@pytest.mark.parametrize("name", TABLE)
def test_a_benchmark_takes_the_sizes_that_the_table_has(name):
    module, _, function = TABLE[name].place.partition(":")
    tree = ast.parse((ROOT / "benchmarks" / f"{module}.py").read_text())
    (found,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    taken = {a.arg for a in found.args.kwonlyargs}
    given = set(TABLE[name].sizes)
    with_default = {a.arg for a, d in zip(found.args.kwonlyargs, found.args.kw_defaults) if d is not None}
    assert taken - with_default <= given
    assert given <= taken or found.args.kwarg is not None
    assert ast.get_docstring(found)


def test_pages_name_benchmarks_that_there_are():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "benchmarks" / "README.md"]
    named = {name for page in pages for found in NAMED.findall(page.read_text()) for name in found.split()}
    assert len(named) > 10
    assert named <= {*TABLE, *ALL}
