"""The tables in docs are what docs/generate.py makes of the code today."""

import importlib.util
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def test_the_tables_are_up_to_date():
    spec: Any = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    for page, tables in generate.PAGES.items():
        text = page.read_text()
        assert generate.generated(text, tables) == text, "run: python docs/generate.py"
