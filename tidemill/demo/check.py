"""The demo's check of itself: results kept up to date must be those computed anew, row by row and count by count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tidemill.boundary.results import counted

Contents = Counter[tuple[Any, ...]]
"""The rows of a result with their counts, none of them 0."""


class Check:
    """What was compared so far, and where it differed."""

    def __init__(self) -> None:
        self._outputs: set[str] = set()
        self._rows = 0
        self._others: dict[str, None] = {}
        self._differences: list[str] = []

    @property
    def passed(self) -> bool:
        """Whether something was compared and nothing differed."""
        return bool(self._others) and not self._differences

    @property
    def differences(self) -> list[str]:
        """A line for each result that differed."""
        return self._differences

    def compare(self, other: str, here: Mapping[str, Contents], there: Mapping[str, Contents], moment: str) -> None:
        """Compare all results with another computation of them."""
        self._others[other] = None
        self._outputs.update(here)
        self._rows = sum(c.total() for c in here.values())
        for name in here.keys() | there.keys():
            if line := _difference(here.get(name, Counter()), there.get(name, Counter()), other):
                self._differences.append(f"after {moment}, output {name!r}: {line}")

    def last_line(self) -> str:
        """Return the check's outcome, in one line.

        >>> check = Check()
        >>> check.compare("DuckDB", {"n": Counter({(1,): 1})}, {"n": Counter({(1,): 1})}, "history")
        >>> check.last_line()
        'checked: 1 output, 1 row equal to DuckDB: ok'
        >>> check.compare("DuckDB", {"n": Counter({(1,): 1})}, {"n": Counter({(2,): 1})}, "Mon 02 Dec")
        >>> check.differences
        ["after Mon 02 Dec, output 'n': 2 rows differ from DuckDB, such as (1,): 1 time here, 0 times there"]
        >>> check.last_line()
        'CHECK FAILED: 1 comparison differs, see above'
        """
        if not self.passed:
            many = len(self._differences)
            return f"CHECK FAILED: {many} {'comparison differs' if many == 1 else 'comparisons differ'}, see above"
        outputs, rows = counted(len(self._outputs), "output"), counted(self._rows, "row")
        *most, last = (f"to {other}" for other in self._others)
        others = f"{', '.join(most)} and {last}" if most else last
        return f"checked: {outputs}, {rows} equal {others}: ok"


def _difference(here: Contents, there: Contents, other: str) -> str:
    if here == there:
        return ""
    rows = [row for row in here.keys() | there.keys() if here[row] != there[row]]
    row = min(rows, key=repr)
    verb = "rows differ" if len(rows) > 1 else "row differs"
    times = f"{counted(here[row], 'time')} here, {counted(there[row], 'time')} there"
    return f"{len(rows):,} {verb} from {other}, such as {row}: {times}"
