"""The renderings of window calls in the embedded engine, one at a time or in turn, however small partitions are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, Final, TypeAlias
from unittest.mock import patch

from tidemill.renderer.embedded.reduce import ordered_windows
from tidemill.renderer.embedded.trace import spine
from tidemill.renderer.embedded.windows import affected, changes, large_partitions, order_index, scalar

Thresholds: TypeAlias = Mapping[ModuleType, Mapping[str, int]]

SMALL_IS_LARGE: Final[Thresholds] = {
    spine: {"TAIL": 1},  # its rows are not counted when a partition's size is looked up
    ordered_windows: {"LARGE": 3, "SMALL": 2, "MANY": 1},
    order_index: {"CHUNK": 2},
    changes: {"ROWS_AT_ONCE": 3},
    affected: {"TOGETHER": 2},
}
"""Partitions of three rows are kept in order, two rows a chunk; all of them may change at once, hardly together."""

FEW_ARE_MANY: Final[Thresholds] = {
    ordered_windows: {"FEW": 0},
    affected: {"NEAR": 2, "FEW": 2**62},
    changes: {"RUN_ROWS_AT_ONCE": 8},
    order_index: {"MANY": 2, "CHUNKS": 2**62},
    scalar: {"ROWS": -1},
}
"""Any two changed rows of a partition are many, and some rows as much as is looked at at a time."""

_AT_ONCE: Final = (SMALL_IS_LARGE, FEW_ARE_MANY)

RENDERINGS: Final[Sequence[Mapping[str, tuple[Thresholds, ...]]]] = (
    {"whole": ({ordered_windows: {"LARGE": 2**62, "SMALL": 2**62}},)},
    {
        "in order": (SMALL_IS_LARGE, {ordered_windows: {"LARGE": 1, "SMALL": 1}}),
        "in order, at once": (*_AT_ONCE, {ordered_windows: {"LARGE": 1, "SMALL": 1}}),
    },
    {
        "in turn": (SMALL_IS_LARGE, {ordered_windows: {"LARGE": 4, "SMALL": 4, "MANY": 2}}),
        "in turn, at once": (*_AT_ONCE, {ordered_windows: {"LARGE": 5, "SMALL": 4, "MANY": 2}}),
    },
)
"""By whole partitions; in order from one row on; and such that partitions of a few rows go to and fro.

Of those together one is as good as another.
"""


@contextmanager
def thresholds(*changed: Thresholds) -> Iterator[None]:
    """Have other thresholds meanwhile, the last ones where some are given twice."""
    with ExitStack() as stack:
        for some in changed:
            for module, values in some.items():
                for name, value in values.items():
                    stack.enter_context(patch.object(module, name, value))
        yield


@contextmanager
def counted_switches() -> Iterator[Counter[str]]:
    """Count how often a partition goes into its order and out of it, and how often changes are worked out in order."""
    found = Counter[str]()
    partitions, evaluator = large_partitions.LargePartitions, changes.Evaluator
    put, drop, changed = partitions.put, partitions.drop, evaluator.changed

    def counted_put(large: Any, key: Any, *given: Any, **named: Any) -> None:
        found["partitions into their order"] += not large.among([key])
        put(large, key, *given, **named)

    def counted_drop(large: Any, key: Any) -> None:
        found["partitions out of their order"] += bool(large.among([key]))
        drop(large, key)

    def counted_changes(*given: Any) -> Any:
        found["changes worked out in order"] += 1
        return changed(*given)

    with (
        patch.multiple(partitions, put=counted_put, drop=counted_drop),
        patch.object(evaluator, "changed", counted_changes),
    ):
        yield found
