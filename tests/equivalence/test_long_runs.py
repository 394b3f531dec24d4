"""The command for long runs: it counts what it compared, and stops at a disagreement."""

import pytest

from tidemill.renderer.embedded.operators.threshold import ThresholdOperator
from tidemill.testing.__main__ import main


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
