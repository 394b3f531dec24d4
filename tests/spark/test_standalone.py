"""A standalone cluster, a master and workers of PySpark's own distribution, to which tidemill is sent."""

from pathlib import Path

import pytest
from support.elsewhere import run_apart

pytest.importorskip("pyspark", reason="needs tidemill[spark]")
pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds executors in /proc")


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    return run_apart("on_standalone.py", tmp_path_factory.mktemp("standalone"))


def test_executors_without_tidemill_have_it_once_it_is_sent(said):
    assert said["before"].startswith("EngineError: No module named 'tidemill'")
    assert "tm.ship(spark)" in said["before"]
    assert said["after"] == [[1, 4.0, 0, 1]]


def test_what_is_compiled_is_not_sent(said):
    assert said["compiled"].startswith("EngineError: ship: 'numpy' is compiled (")


def test_files_of_state_are_the_executors_work(said):
    """Each epoch is another run on the folder: it loads, and looks up what was loaded."""
    assert said["kept"]["found"] == said["expected"]
    assert said["kept"]["work"] == ["_Check", "_Describe", "_Merge", "_Sort"]
