"""The notebooks run, and show what is kept in them; see notebooks/execute.py. The one on Spark is run in tests/spark."""

import re

import pytest
from support.running_notebooks import NAMES, ON_SPARK, now_and_kept, read, script


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
