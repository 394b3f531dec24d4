"""The notebooks run, and show what is kept in them; see notebooks/execute.py. The one on Spark is run in tests/spark."""

import re
import sys
import tomllib

import pytest
from support.running_notebooks import NAMES, NOTEBOOKS, ON_SPARK, now_and_kept, read, script


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of Jupyter's
@pytest.mark.parametrize("name", [n for n in NAMES if n not in ON_SPARK])
def test_a_notebook_shows_what_is_kept_in_it(name):
    now, kept = now_and_kept(name)
    assert now == kept, "python notebooks/execute.py"


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_was_run_from_top_to_bottom_and_names_no_machine(name):
    execute = script()
    notebook = read(name)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert [cell.id for cell in notebook.cells] == [f"cell-{n:02}" for n in range(len(notebook.cells))]
    shown = "\n".join(text for cell in code for text in execute.shown(cell))
    assert re.findall(r"(?:/tmp|/home|/work|/root|/Users|ipykernel_)[\w/.]*", shown) == []
    assert not [output for cell in code for output in cell.outputs if output.output_type == "error"]


def test_what_varies_is_kept_unless_the_code_has_changed():
    execute = script()
    from nbformat import v4

    def notebook(code, shown):
        output = v4.new_output("stream", text=shown)
        return v4.new_notebook(cells=[v4.new_code_cell(code, outputs=[output], metadata={"tags": ["varies"]})])

    assert execute.kept(notebook("a", "before"), notebook("a", "now")).cells[0].outputs[0].text == "before"
    assert execute.kept(notebook("a", "before"), notebook("b", "now")).cells[0].outputs[0].text == "now"


def test_where_a_widget_was_a_notebook_keeps_its_picture_alone():
    (cell,) = (c for c in read("2-recursion").cells if c.source == "run.explore()")
    assert set(cell.outputs[0].data) == {"text/plain", "image/svg+xml", "text/html"}


def of_extra(project, name):
    """What an extra installs, and the dependencies of the package, by name."""
    found = set()
    for requirement in project["dependencies"] + project["optional-dependencies"][name]:
        package, extras = re.match(r"([\w-]+)(?:\[([\w,]+)\])?", requirement).groups()
        found |= (
            set().union(*(of_extra(project, one) for one in extras.split(","))) if package == "tidemill" else {package}
        )
    return found


def test_the_command_beside_the_notebooks_installs_what_they_import():
    project = tomllib.loads((NOTEBOOKS.parent / "pyproject.toml").read_text())["project"]
    page = (NOTEBOOKS / "README.md").read_text()
    (extra,) = re.findall(r"pip install -q -e '\.\[(\w+)\]' && \.venv/bin/jupyter lab notebooks", page)
    assert all(f"({name}.ipynb)" in page for name in NAMES)
    source = "\n".join(cell.source for name in NAMES for cell in read(name).cells if cell.cell_type == "code")
    imported = set(re.findall(r"^(?:import|from) (\w+)", source, re.MULTILINE)) - set(sys.stdlib_module_names)
    assert {"matplotlib", "hypothesis"} < imported
    assert imported - {"tidemill"} <= of_extra(project, extra)
    assert {"jupyterlab", "anywidget", "pyspark"} <= of_extra(project, extra)
