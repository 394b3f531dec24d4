"""The command for long runs: it counts what it compared, and stops at a disagreement."""

import pytest
from support.random_cases import main

from tidemill.renderer.embedded.operators import watermarks
from tidemill.renderer.embedded.operators.threshold import ThresholdOperator
from tidemill.renderer.embedded.windows.order_index import OrderIndex


def test_cases_are_counted(capsys):
    assert main(["--cases", "5", "--coordinates", "2", "1", "--passes"]) == 0
    assert "5 cases agree (5 with 2 coordinates, 0 with 1 coordinate)" in capsys.readouterr().out


@pytest.mark.slow
def test_a_disagreement_ends_it(capsys, monkeypatch: pytest.MonkeyPatch):
    right = ThresholdOperator.desired
    monkeypatch.setattr(ThresholdOperator, "desired", lambda *args: right(*args) * 2)
    assert main(["--cases", "400", "--coordinates", "1", "--max-operators", "3"]) == 1
    said = capsys.readouterr().err
    assert "disagreement, coordinates 1, seed" in said
    assert "#0 Input 'a'" in said


@pytest.mark.slow
def test_what_windows_on_close_had_is_counted(capsys):
    assert main(["--draw", "on-close", "--cases", "30", "--seed", "3"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("30 cases agree (batchings: 120, ")
    for what in ("refused steps: ", "cases with retractions: ", "cases with late rows: "):
        assert what in said


@pytest.mark.slow
def test_what_windows_had_is_counted(capsys):
    assert main(["--draw", "windows", "--cases", "25", "--seed", "3"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("25 cases agree (batchings: 15")
    for what in ("refused steps: ", "partitions into their order: ", "partitions out of their order: "):
        assert what in said


@pytest.mark.slow
def test_a_watermark_that_is_too_low_is_found(capsys, monkeypatch: pytest.MonkeyPatch):
    right = watermarks.limits_of
    monkeypatch.setattr(watermarks, "limits_of", lambda marks, extra: right(marks, extra + 1))
    assert main(["--draw", "on-close", "--cases", "100"]) == 1
    said = capsys.readouterr().err
    assert "disagreement, coordinates 1, seed 0: output '" in said
    assert "emit='on_close'" in said or "SortBuffer" in said


@pytest.mark.slow
def test_a_refused_step_that_leaves_rows_in_order_is_found(capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(OrderIndex, "go_back", lambda partition, state: None)
    assert main(["--draw", "windows", "--cases", "250"]) == 1
    said = capsys.readouterr().err
    assert "after a refused step, at time" in said
    assert "rendering: in " in said
