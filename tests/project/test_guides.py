"""What the guides show is what comes out."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["on-close"])
def test_its_code_shows_what_it_says(name):
    found = doctest.testfile(str(DOCS / f"{name}.md"), module_relative=False)
    assert found.failed == 0
    assert found.attempted > 10
