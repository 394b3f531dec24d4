"""SIGKILL at random moments: nothing is lost and nothing doubled. The long form is tests/lib/support/kills.py."""

import pytest
from support import kills


@pytest.mark.slow
def test_killed_three_times():
    found = kills.compare(steps=10, kills=3, checkpoint_every=4, in_memory=20, seed=5)
    assert found["same_files"]
    assert found["same_contents"]
    assert found["same_frontier"]
    assert found["killed_while_running"] >= 2
    assert found["updates"] > 50
