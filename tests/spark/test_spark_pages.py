"""What the page on Spark shows is true: see tests/docs/test_pages.py."""

import os
from pathlib import Path

from support.pages import ran

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "spark.md"


def test_the_code_of_the_page_on_spark_runs_and_prints_what_the_page_shows(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = ran(PAGE, {"__name__": "page", "spark": spark})
    if "TIDEMILL_WRITE" in os.environ:
        PAGE.write_text(found)
    assert found == PAGE.read_text(), (
        "TIDEMILL_WRITE=1 pytest tests/spark/test_spark_pages.py writes what is printed now"
    )
