"""What docs/security.md says of the source: nothing that is read is run, and nothing is sent."""

import io
import re
from pathlib import Path

import numpy as np
import pytest

from tidemill.renderer.embedded import array_file

PACKAGE = Path(__file__).parents[2] / "tidemill"
UNPICKLES = {
    "renderer/spark/large_windows.py",  # what our own tasks on executors say
    "renderer/spark/sent_functions.py",  # what was pickled on the line itself
}


def having(pattern):
    """The files in which a pattern is found."""
    return {
        p.relative_to(PACKAGE).as_posix()
        for p in PACKAGE.rglob("*.py")
        if re.search(pattern, p.read_text(), re.MULTILINE)
    }


def test_nothing_is_unpickled_but_what_sparks_own_tasks_say():
    assert having(r"\b(cloud)?pickle\.(loads?|Unpickler)\b|\b(np|numpy)\.load\b|allow_pickle=True") == UNPICKLES
    assert having(r"^\s*(from|import) (pickle|pyspark\.cloudpickle)\b|import (cloud)?pickle\b") >= UNPICKLES
    assert having(r"from (cloud)?pickle import|import (marshal|shelve|dill|joblib|yaml)\b") == set()


def test_nothing_runs_text():
    assert having(r"(?<![\w.\"'`])(eval|exec)\(") == set()


def test_nothing_is_sent():
    assert having(r"^\s*(from|import) (http|urllib\.request|requests|httpx|ftplib|smtplib|socketserver|ssl)\b") == set()
    assert having(r"^\s*(from|import) socket\b") == {"renderer/durable/lock.py"}  # which asks for the machine's name


def test_arrays_of_objects_are_not_read():
    file = io.BytesIO()
    np.save(file, np.array([{}, []], object), allow_pickle=True)
    with pytest.raises(ValueError, match="OBJECT array"):
        array_file._array(file.getvalue())
