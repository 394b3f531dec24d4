"""Spark Connect: the same results and errors from a server that has neither this process nor its session."""

import os
import re
import sys
from pathlib import Path

import pytest
from support.elsewhere import OUTPUTS, run_apart
from support.running import many_examples

import tidemill as tm

pytest.importorskip("grpc_status", reason="needs tidemill[connect]")
pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs a shell")

WITHOUT_TIDEMILL = """
import os, sys

class WithoutTidemill:
    def find_spec(self, name, path=None, target=None):
        if name == "tidemill" and os.path.exists({file!r}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

if "pyspark.daemon" in sys.orig_argv:
    sys.meta_path.insert(0, WithoutTidemill())
"""


def without_tidemill(folder):
    """A folder for Python's path where executors have no tidemill as long as a file is there."""
    (folder / "site").mkdir()
    file = str(folder / "without tidemill")
    (folder / "site" / "sitecustomize.py").write_text(WITHOUT_TIDEMILL.format(file=file))
    return str(folder / "site")


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    folder = tmp_path_factory.mktemp("connect")
    return run_apart("on_connect.py", folder, path=without_tidemill(folder), PYSPARK_PYTHON=sys.executable)


def test_results_are_those_of_the_reference(said):
    for output in OUTPUTS:
        reference, spark = said["one coordinate"][output]
        assert spark == reference != "[]", output
        reference, *others = said["two coordinates"][output]
        assert len(others) == 1 + many_examples()
        assert reference != "[]"
        assert set(others) == {reference}, output


def test_live_runs_take_dataframes_and_give_them(said):
    live = said["live"]
    assert live["kind"] == "pyspark.sql.connect.dataframe"
    assert live["now"] == [[1, 2], [2, 4]]
    assert live["changes"] == [["k", "n", "time", "diff"], [[1, 2, 1, 1], [1, 5, 1, -1]]]


def test_what_is_sent_comes_before_what_executors_have(said):
    """In the order in which modules are looked for: workers that are made ready for tests have imported tidemill before."""
    path = said["shipped"]
    (sent,) = (i for i, entry in enumerate(path) if re.search(r"/tidemill-[0-9a-f]{12}\.zip$", entry))
    assert sent < path.index(str(Path(tm.__file__).parents[1]))


def test_plans_are_shown(said):
    assert "Output 'n':" in said["live"]["plan"]
    assert "MapInArrow input_0(" in said["live"]["plan"]


def test_what_needs_the_process_of_the_run_is_refused(said):
    kind, text, _ = said["live"]["foreach_batch"]
    assert kind == "EngineError"
    assert "foreach_batch: Spark Connect calls the function in a process of its server" in text


def test_executors_without_tidemill(said):
    kind, text, cause = said["without tidemill"]
    assert kind == "EngineError"
    assert text.startswith("No module named 'tidemill': the Python of Spark's executors")
    assert "over Spark Connect on the server's side" in text
    assert "PythonException" in cause
    assert said["with it"] == [[1, 4, 0, 1]]


def test_functions_that_cannot_be_sent_or_end_the_server_s_python(said):
    for told, what in (
        ("unsent", "cannot be sent to Spark's executors, because of 'lock'"),
        ("ended", "ended the executors'"),
    ):
        kind, text, _ = said[told]
        assert kind == "UserFunctionError"
        assert text.startswith("map_rows (")
        assert "on_connect.py:" in text
        assert what in text


def test_a_process_that_is_not_set_up_for_it(said):
    kind, text, _ = said["not in Connect mode"]
    assert (kind, text.partition(":")[0]) == (
        "EngineError", "a session of Spark Connect, but this process' PySpark is not set up for it",
    )  # fmt: skip


def test_errors_are_those_of_the_embedded_engine(said):
    for (kind, text, _), (expected, beginning) in said["errors"].values():
        assert kind == expected
        assert text.startswith(beginning)
        assert "test_errors.py:" in text
    cause = said["errors"]["map_rows raises"][0][2]
    assert "ZeroDivisionError: integer division or modulo by zero" in cause
