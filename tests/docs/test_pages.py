"""What pages of the documentation show is true: their code runs, and prints what they say it prints."""

import os
from pathlib import Path

import pytest
from support.pages import BLOCK, has_code, ran

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["../README.md", *sorted(p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md") if has_code(p))]
ON_SPARK = {"guides/spark.md"}
"""Those that tests/spark/test_spark_pages.py runs, where there is a session."""
SLOW = {"guides/nightly-job.md"}
"""Those whose programs are run again and again, in processes of their own."""
WIDTH = 100
"""Characters that fit the site's column."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in PAGES if n not in ON_SPARK]
)
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = DOCS / name
    found = ran(page, {"__name__": "page"})
    if "TIDEMILL_WRITE" in os.environ:
        page.write_text(found)
    assert found == page.read_text(), "TIDEMILL_WRITE=1 pytest tests/docs writes what is printed now; read the diff"


def test_a_page_that_prints_something_else_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nprint(x + 1)\n```\n```text\n3\n```\n")
    assert ran(page, {}).endswith("```text\n2\n```\n")


def test_an_example_with_prompts_that_gives_something_else_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\n>>> 1 + 1\n3\n```\n")
    with pytest.raises(AssertionError, match="Expected:\n +3\nGot:\n +2"):
        ran(page, {})


@pytest.mark.parametrize("name", PAGES)
def test_code_is_no_wider_than_the_page(name):
    blocks = [b for b in BLOCK.finditer((DOCS / name).read_text()) if b["kind"] in {"python", "pycon"}]
    assert [line for block in blocks for line in block["text"].splitlines() if len(line) > WIDTH] == []


def test_the_readme_is_short_and_its_first_screen_has_what_a_stranger_looks_for():
    text = (DOCS.parent / "README.md").read_text()
    assert len(text.encode()) <= 7_000
    first = text[: text.index("## What there is")]
    assert (
        0
        < first.index("one-row.svg")
        < first.index("```python")
        < first.index("tidemill demo")
        < first.index("-m pytest")
    )
    (code,) = (b["text"] for b in BLOCK.finditer(first) if b["kind"] == "python")
    assert len([line for line in code.splitlines() if line]) <= 13
