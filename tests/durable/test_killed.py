"""SIGKILL at random moments: nothing is lost and nothing doubled. The long form is tests/lib/support/kills.py."""

import pytest
from support import kills, subscriber_kills


@pytest.mark.slow
def test_killed_three_times():
    found = kills.compare(steps=10, kills=3, checkpoint_every=4, in_memory=20, seed=5)
    assert found["same_files"]
    assert found["same_contents"]
    assert found["same_frontier"]
    assert found["killed_while_running"] >= 2
    assert found["updates"] > 50


@pytest.mark.slow
def test_subscribers_of_a_run_that_is_killed_ten_times():
    """While they acknowledge, while there are checkpoints, and while changelogs are merged."""
    found = subscriber_kills.compare(steps=50, times=10, checkpoint_every=5, in_memory=20, seed=1)
    assert found["wrong"] == []
    assert all(found["same"].values())
    assert found["same_changelog"]
    assert found["killed_while_running"] >= 7
    assert found["updates"] > 500
    assert found["files"] <= 3 * (2 * 4 + 6)  # of three outputs: twice the steps to be kept, and a few of ranges
