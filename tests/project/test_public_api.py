"""Nothing of the public API gets lost: tests/project/public_api.txt lists it, a line a name with its parameters."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.public_api import BETWEEN_LAYERS, held, public_api

LISTED = Path(__file__).with_name("public_api.txt").read_text().splitlines()


def test_nothing_is_lost():
    assert sorted(set(LISTED) - set(public_api())) == []


def test_what_is_new_is_listed():
    new = sorted(set(public_api()) - set(LISTED))
    assert new == [], "list it: python tests/lib/support/public_api.py > tests/project/public_api.txt"


OF_EXPRESSIONS = {"Aggregate", "Expr", "When", "WindowCall", "WindowFunction"}
OF_ENGINES = {"Embedded", "Reference", "Spark"}
"""What users make once, in the call that starts a run."""


@pytest.mark.parametrize("kind", sorted(BETWEEN_LAYERS.keys() - OF_ENGINES))
def test_completion_offers_nothing_that_only_other_parts_of_tidemill_use(kind):
    inner = BETWEEN_LAYERS[kind] | (BETWEEN_LAYERS["Expr"] if kind in OF_EXPRESSIONS else set())
    value = held()[kind]
    assert sorted(inner & set(dir(value))) == []
    assert [n for n in dir(value) if not n.startswith("_")], "and something that users use"


@pytest.mark.slow
def test_type_checkers_find_names_that_are_not_there(tmp_path):
    wrong = "import tidemill as tm\nfrom tidemill.algorithms import prefix_summ\n\nprint(tm.srot, tm.Views, tm.graphs.bfs)\n"
    (tmp_path / "user.py").write_text(wrong)
    checked = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "user.py"]
    done = subprocess.run(checked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 'has no attribute "prefix_summ"' in done.stdout
    assert 'has no attribute "srot"' in done.stdout
    assert "Found 2 errors" in done.stdout
