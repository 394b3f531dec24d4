"""Nothing of the public API gets lost: tests/project/public_api.txt lists it, a line a name with its parameters."""

import inspect
import rlcompleter
import subprocess
import sys
import typing
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.public_api import BETWEEN_LAYERS, held, public_api

import tidemill as tm
from tidemill.late import Late

LISTED = Path(__file__).with_name("public_api.txt").read_text().splitlines()


def test_nothing_is_lost():
    assert sorted(set(LISTED) - set(public_api())) == []


def test_what_is_new_is_listed():
    new = sorted(set(public_api()) - set(LISTED))
    assert new == [], "list it: PYTHONPATH=tests/lib python -m support.public_api > tests/project/public_api.txt"


def hinted():
    """Iterate over what is public and has hints: functions, classes, methods."""
    for name in tm.__all__:
        value = getattr(tm, name)
        if inspect.isclass(value):
            yield name, value
            for of, method in inspect.getmembers(value):
                found = method.fget if isinstance(method, property) else method
                if not of.startswith("_") and (inspect.isfunction(found) or inspect.ismethod(found)):
                    yield f"{name}.{of}", found
        elif inspect.isfunction(value):
            yield name, value


def test_hints_of_all_that_is_public_are_resolved():
    hints = {name: typing.get_type_hints(value) for name, value in hinted()}
    assert hints["Run.why"]["return"] is tm.Why
    assert hints["Dataflow.sql"]["tables"] == Mapping[str, tm.Collection] | None
    assert len(hints) > 300
    for name in tm.__all__:
        if inspect.isclass(getattr(tm, name)):
            typing.get_type_hints(getattr(tm, name).__init__)
    assert typing.get_type_hints(tm.DType.__init__)["element"] == tm.DType | None


def test_without_an_optional_package_what_is_of_it_is_not_there_and_hints_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    advice = r"needs pyspark(\.sql)?, which is not installed: pip install 'tidemill\[spark\]'"
    assert not hasattr(inspect.getmodule(tm.Dataflow).ps, "SparkSession")
    with pytest.raises(AttributeError, match=advice):
        typing.get_type_hints(tm.Dataflow.explain)
    with pytest.raises(AttributeError, match=r"needs not_there, which is not installed: pip install 'not_there'"):
        Late("not_there.at_all").anything  # noqa: B018 - to ask is what is tried
    missing = [name for name in dir(tm) if not hasattr(tm, name)]
    assert missing == []


OF_EXPRESSIONS = {"Aggregate", "Expr", "When", "WindowCall", "WindowFunction"}
OF_ENGINES = {"Embedded", "Reference", "Spark"}
"""What users make once, in the call that starts a run."""


@pytest.mark.parametrize("kind", sorted(BETWEEN_LAYERS.keys() - OF_ENGINES))
def test_completion_offers_nothing_that_only_other_parts_of_tidemill_use(kind):
    inner = BETWEEN_LAYERS[kind] | (BETWEEN_LAYERS["Expr"] if kind in OF_EXPRESSIONS else set())
    value = held()[kind]
    assert sorted(inner & set(dir(value))) == []
    assert [n for n in dir(value) if not n.startswith("_")], "and something that users use"
    words = {word.rstrip("()") for word in rlcompleter.Completer({"it": value}).attr_matches("it.")}
    assert sorted(inner & {word.removeprefix("it.") for word in words}) == [], "nor by the names of its class"


@pytest.mark.slow
def test_type_checkers_find_names_that_are_not_there(tmp_path):
    wrong = "import tidemill as tm\nfrom tidemill.algorithms import prefix_summ\n\nprint(tm.srot, tm.Views, tm.graphs.bfs)\n"
    (tmp_path / "user.py").write_text(wrong)
    checked = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "user.py"]
    done = subprocess.run(checked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 'has no attribute "prefix_summ"' in done.stdout
    assert 'has no attribute "srot"' in done.stdout
    assert "Found 2 errors" in done.stdout
