"""The tables of docs/spark-differences.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[3] / "docs" / "spark-differences.md"


class Difference(NamedTuple):
    """A line of a table."""

    expression: str
    here: str
    spark: str


def _table(heading: str) -> list[Difference]:
    (section,) = re.findall(rf"^## {heading}$(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^\| `(.+?)` \| (.+?) \| (.+?) \| .* \|$", section, re.MULTILINE)
    return [Difference(*line) for line in lines]


VALUES = _table("Values")
TYPES = _table("Types")
