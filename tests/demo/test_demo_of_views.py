"""The demo of views over tables: what it says happens, and its check of itself finds what is wrong."""

import re

import pytest

from tidemill.cli import main
from tidemill.demo import views


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(views, "MANY", {"orders": 400, "a day": 100, "customers": 50})


@pytest.mark.slow
def test_three_days_are_played_and_checked(small, capsys):
    assert main(["demo", "--views"]) == 0
    out, err = capsys.readouterr()
    assert not err
    assert re.fullmatch(r"All views were right each time; \d+ s\.", out.splitlines()[-1])
    assert out.count("as DuckDB computes them anew") == 6
    read = [int(rows) for rows in re.findall(r"source orders: (\d+) rows", out)]
    assert read[:5] == [400, 100, 0, 2, 0]
    assert read[5] in {0, 100}  # the one that was killed had it read, or not
    assert "'amount': 1000000, 'region': " in out
    assert "refresh 5 was cut off: the next one goes on with it" in out or "done before the kill" in out


@pytest.mark.slow
def test_a_view_that_is_wrong_is_said(small, monkeypatch, capsys):
    monkeypatch.setattr(views, "JOB", views.JOB.replace("amount > 990", "amount > 900"))
    assert main(["demo", "--views"]) == 1
    out, _ = capsys.readouterr()
    assert out.count("WRONG: large") == 6
    assert "A VIEW WAS WRONG" in out


def test_what_is_missing_is_named(monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    assert main(["demo", "--views"]) == 1
    assert "pip install 'tidemill[delta,duckdb]'" in capsys.readouterr().err
