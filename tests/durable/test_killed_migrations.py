"""SIGKILL wherever a migration touches the disk. At every moment: tests/lib/support/killed_migrations.py."""

import json
import subprocess
import sys

import pytest
from support import killed_migrations


@pytest.mark.slow
@pytest.mark.parametrize(("every", "in_memory"), [(5, 10**9), (7, 10)])
def test_the_old_version_or_the_new_one(every, in_memory):
    command = [sys.executable, killed_migrations.__file__, str(every), str(in_memory)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert found.keys() == {"killed", "not killed", "old", "new", "goes on"}
    assert found["goes on"] == found["old"] + found["new"] == found["killed"] + 1
    assert found["killed"] >= 4
