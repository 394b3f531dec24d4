"""The notebook on Spark runs, and shows what is kept in it: see tests/docs/test_notebooks.py. It has a session of its own."""

import pytest
from support.elsewhere import QUICK_JAVA
from support.running_notebooks import ON_SPARK, now_and_kept


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_SPARK)
def test_the_notebook_on_spark_shows_what_is_kept_in_it(name, monkeypatch):
    pytest.importorskip("pyspark", reason="needs tidemill[spark]")
    for variable, value in QUICK_JAVA.items():
        monkeypatch.setenv(variable, value)
    now, kept = now_and_kept(name)
    assert now == kept, "python notebooks/execute.py"
