"""The tables and pictures in docs are what docs/generate.py makes of the code today."""

import importlib.util
import re
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


def test_commands_that_docs_and_tests_name_start_where_they_say():
    written = [p for d in ("docs", "tests", "benchmarks") for p in (ROOT / d).rglob("*") if p.suffix in {".md", ".py"}]
    lines = [line for path in [*written, *ROOT.glob("*.md")] for line in path.read_text().splitlines()]
    commands = {
        c
        for line in lines
        for c in re.findall(r"(PYTHONPATH=tests/lib )?python (?:-m )?(support\.\w+|tests/[\w/]+\.py)", line)
    }
    assert len(commands) >= 9
    for path_is_set, named in commands:
        script = ROOT / "tests/lib" / f"{named.replace('.', '/')}.py" if named.startswith("support.") else ROOT / named
        text = script.read_text()
        assert '__name__ == "__main__"' in text, f"{named} is no command"
        assert path_is_set or not re.search(r"^\s*(from|import) support\b", text, re.MULTILINE), (
            f"{named} needs tests/lib"
        )
