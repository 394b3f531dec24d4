"""Checking engines, flows and expectations against each other: for tidemill's own tests and for users'.

`check_equivalent` needs nothing else; the strategies need `hypothesis`, which is imported when they are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidemill.testing.batchings import all_at_once, shuffled, time_by_time
from tidemill.testing.equivalence import check_equivalent

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from tidemill.expressions.schema import SchemaLike
    from tidemill.testing.random_flows import Case

__all__ = ["all_at_once", "check_equivalent", "dataflows", "shuffled", "time_by_time", "updates"]


def updates(
    schema: SchemaLike,
    coordinates: int = 1,
    *,
    max_size: int = 12,
    latest: int = 3,
    non_negative: bool = False,
    values: Mapping[str, Sequence[Any]] | None = None,
) -> SearchStrategy[list[tuple[Any, Any, int]]]:
    """Return a Hypothesis strategy for updates of a schema: lists of ``(row, time, diff)`` in any order of times.

    Rows are made of few values, so that they meet: with nulls, NaN, -0.0 and 1e20 where the type has them, with
    retractions, and pairs that cancel. ``latest`` is the greatest coordinate of a time. With ``non_negative`` nothing
    is taken back before it is there, so no count is negative at any time. ``values`` replaces the values of columns.

    >>> from hypothesis import given
    >>> @given(updates({"k": "int64", "v": "int64"}, coordinates=2))
    ... def test_times(found):
    ...     assert all(len(row) == 2 and len(time) == 2 and diff for row, time, diff in found)
    >>> test_times()
    """
    found: SearchStrategy[list[tuple[Any, Any, int]]] = _strategies("updates").updates(
        schema, coordinates, max_size=max_size, latest=latest, non_negative=non_negative, values=values
    )
    return found


def dataflows(coordinates: int = 1, *, max_operators: int = 6, loops: bool = True) -> SearchStrategy[Case]:
    """Return a Hypothesis strategy for small random dataflows of all operators, each with updates for its inputs.

    What it draws has ``flow`` and ``updates``, as `check_equivalent` takes them. Its loops end: they are monotone and
    distinct, or limited.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=5, deadline=None)
    ... @given(dataflows())
    ... def test_engines(case):
    ...     check_equivalent(case.flow, case.updates)
    >>> test_engines()
    """
    found: SearchStrategy[Case] = _strategies("dataflows").dataflows(
        coordinates, max_operators=max_operators, loops=loops
    )
    return found


def _strategies(name: str) -> Any:
    try:
        import hypothesis  # noqa: F401, PLC0415 - only those who draw need it
    except ImportError:
        msg = f"tidemill.testing.{name} needs Hypothesis: install the package `hypothesis`"
        raise ModuleNotFoundError(msg, name="hypothesis") from None
    from tidemill.testing import strategies  # noqa: PLC0415

    return strategies
