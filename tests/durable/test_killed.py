"""SIGKILL at random moments: nothing is lost and nothing doubled. The long form is benchmarks/kills.py."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

KILLS = Path(__file__).parents[2] / "benchmarks" / "kills.py"


@pytest.mark.slow
def test_killed_three_times(capsys):
    spec: Any = importlib.util.spec_from_file_location("kills", KILLS)
    kills = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kills)
    found = kills.compare(steps=10, kills=3, checkpoint_every=4, in_memory=20, seed=5)
    assert found["same_files"]
    assert found["same_contents"]
    assert found["same_frontier"]
    assert found["killed_while_running"] >= 2
    assert found["updates"] > 50
