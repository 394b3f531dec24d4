"""The tables and pictures in docs are what docs/generate.py makes of the code today."""

import importlib.util
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def script() -> Any:
    spec: Any = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    return generate


def test_the_tables_are_up_to_date():
    generate = script()
    for page, tables in generate.PAGES.items():
        text = page.read_text()
        assert generate.generated(text, tables) == text, "run: python docs/generate.py"


def test_the_picture_of_packages_is_up_to_date():
    for path, picture in script().PICTURES.items():
        assert picture() == path.read_text(), "run: python docs/generate.py"


def test_no_page_has_a_diagram_that_its_site_shows_as_text():
    assert [p for p in (ROOT / "docs").rglob("*.md") if "```mermaid" in p.read_text()] == []
