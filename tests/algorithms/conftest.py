"""Table functions are tested on columns: none may fall back on its meaning row by row unseen."""

import pytest

from tidemill.renderer.embedded.operators import table_function
from tidemill.renderer.embedded.operators.linear import FlatMapOperator
from tidemill.renderer.embedded.operators.table_function import TableFunctionOperator


@pytest.fixture(autouse=True)
def columns_do(monkeypatch, request):
    if "falls_back" in request.fixturenames:
        return
    evaluate = FlatMapOperator.evaluate

    def checked(operator, block):
        assert not isinstance(operator, TableFunctionOperator), f"{operator.node.describe()} failed on columns"
        return evaluate(operator, block)

    monkeypatch.setattr(FlatMapOperator, "evaluate", checked)
    monkeypatch.setattr(table_function, "FEW_ROWS", 0)  # however few rows there are


@pytest.fixture
def falls_back():
    """For tests in which table functions fail."""
