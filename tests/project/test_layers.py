"""Imports point one way, in every package: see `MAY_IMPORT`, from the ground up."""

import subprocess
import sys

import pytest
from support.imports import TOP, all_imports, circles, modules, own_imports, package

import tidemill

GROUND = {"completion", "errors", "late", "site"}
GRAPH = GROUND | {"expressions", "dataflow"}
DATA = GRAPH | {"boundary"}
ENGINES = {
    "renderer/diagram",
    "renderer/runs",
    "renderer/reference",
    "renderer/embedded",
    "renderer/durable",
    "renderer/spark",
}
FLOW = DATA | {"collections", "algorithms", "renderer", "provenance"} | ENGINES

MAY_IMPORT = {
    "completion": set(),
    "late": set(),
    "site": set(),
    "errors": {"site"},
    "expressions": GROUND,
    "dataflow": GROUND | {"expressions"},
    "boundary": GRAPH,
    "collections": DATA,
    "algorithms": DATA | {"collections"},
    "renderer/diagram": GRAPH,
    "renderer/runs": DATA | {"notebook", "renderer/diagram"},  # run.live(), run.to_svg()
    "renderer/reference": DATA | {"renderer/runs"},
    "renderer/embedded": DATA | {"renderer/runs"},
    "renderer/durable": DATA | {"renderer/runs", "renderer/embedded"},
    "renderer/spark": DATA | {"renderer/runs", "renderer/embedded", "renderer/durable"},
    "renderer": DATA | ENGINES,
    "sql": DATA | {"collections", "algorithms"},
    "provenance": DATA | {"renderer", "renderer/diagram", "renderer/reference"},
    "notebook": DATA | {"renderer/diagram"},
    "flow": FLOW | {"notebook", "sql"},  # flow.explore(), flow.sql()
    "testing": FLOW | {"flow"},
    "shell": DATA | {"collections", "renderer/runs", "sql", "flow"},
    "views": FLOW | {"flow"},
    TOP: FLOW | {"flow", "testing", "shell", "views"},  # %load_ext tidemill
    "demo": FLOW | {"flow", "views", TOP},
    "cli": {"errors", "demo", "renderer/diagram", "renderer/durable", "shell", "views", TOP},
    "__main__": {"cli"},
}

MAY_IMPORT_PYSPARK = {
    "renderer/spark",
    "flow",  # says what to install where it is missing
}


def test_every_package_has_its_layer():
    assert {package(module) for module in modules()} == set(MAY_IMPORT)


def test_imports_point_one_way():
    wrong = [
        f"{i.place} imports {i.imported}"
        for i in own_imports()
        if package(i.imported) not in MAY_IMPORT[package(i.module)] | {package(i.module)}
    ]
    assert not wrong


def test_engines_do_not_know_each_other():
    engines = {"renderer/reference", "renderer/embedded", "renderer/spark"}
    found = {(package(i.module), package(i.imported)) for i in own_imports()}
    # A distributed engine runs the embedded engine's kernels; nobody else borrows.
    assert {(a, b) for a, b in found if {a, b} <= engines and a != b} == {("renderer/spark", "renderer/embedded")}


def test_only_the_spark_renderer_imports_pyspark():
    found = [i for i in all_imports() if i.imported.startswith(("pyspark.", "py4j.")) and not i.for_types]
    assert [i.place for i in found if package(i.module) not in MAY_IMPORT_PYSPARK] == []


def test_packages_import_each_other_in_no_circle():
    found = {(package(i.module), package(i.imported)) for i in own_imports()}
    assert circles({(a, b) for a, b in found if a != b}) == set()


def test_modules_import_each_other_in_no_circle():
    assert circles({(i.module, i.imported) for i in own_imports()}) == set()


@pytest.fixture(scope="module")
def imported():
    """The modules there are in a process that has imported tidemill and nothing else."""
    code = "import sys, tidemill; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize("heavy", ["pyspark", "pandas", "sqlglot", "networkx", "hypothesis", "duckdb", "polars"])
def test_importing_tidemill_imports_only_what_it_needs(imported, heavy):
    assert "tidemill" in imported
    assert heavy not in imported


def test_a_star_import_shadows_no_builtin():
    import builtins

    assert not set(tidemill.__all__) & set(dir(builtins))
    assert all(hasattr(tidemill, name) for name in tidemill.__all__)
