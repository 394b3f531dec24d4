"""Window calls by Spark's own windows: of rows at one time, each there once, where calls mean the same there.

Ties are broken as everywhere, by the hash of the row, which is Spark's xxhash64, then by the row. Sums of frames are
those of `native`, each of which is exact. Frames of many rows that Spark would add up anew for each row are left to the
kernels, and so is a window over all rows: where it is large it is cut into ranges, and Spark would have one task.
"""

from __future__ import annotations

from typing import Final

import attrs

from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.aggregates import EXTREMES
from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.windows.bound import (
    AggregateCall,
    BoundWindowCall,
    OffsetCall,
    RankingCall,
    ValueCall,
    Windows,
)
from tidemill.expressions.windows.frames import Frame as WindowFrame
from tidemill.renderer.spark.exact_floats import SUMMED
from tidemill.renderer.spark.frames import Frame, names
from tidemill.renderer.spark.native import adds_up, totals_of, value_of
from tidemill.renderer.spark.scalars import native_sql
from tidemill.renderer.spark.types import sql_type

_SLIDING: Final = 32
"""Up to how many rows of a frame that moves at both ends adding them up anew for each row is as quick as anything."""
_GREATEST_INT: Final = 2**31 - 1


def native_windows(node: Reduce, frame: Frame, *, floats: bool) -> Frame | None:
    """Return the rows with the calls' values; None where Catalyst has no such windows, or there are no rows.

    With ``floats`` it may try to add up floats.
    """
    windows = node.logic
    if not isinstance(windows, Windows) or not node.keys or not frame.inserted or frame.time is None:
        return None
    calls = [_text(windows, call, floats=floats) for call in windows.calls]
    if None in calls:
        return None
    by = _Spec.of(node, windows)
    data = frame.data
    added = {call.aggregate.column for call in windows.calls if isinstance(call, AggregateCall) and _has_limbs(call)}
    if added:
        cut = [text for c in added for text in SUMMED.selected(f"c{c}", f"coalesce(c{c}, 0D)")]
        data = data.selectExpr("*", *cut)
    values, sums = [], []
    for number, (call, text) in enumerate(zip(windows.calls, calls, strict=True)):
        over = f"OVER ({by.over(call)})"
        if isinstance(call, AggregateCall):
            prefix = f"w{number}_"
            sums += [f"{total} {over} AS {prefix}{name}" for name, total in totals_of(call.aggregate).items()]
            of_floats = SUMMED.as_decimal(f"{prefix}c{call.aggregate.column}") if _has_limbs(call) else None
            value = value_of(call.aggregate, of_floats, prefix)
        else:
            value = f"v{number}"
            sums.append(f"{text} {over} AS {value}")
        values.append(f"CAST({value} AS {sql_type(call.output)})")
    row = [*(f"c{i}" for i in windows.kept(len(node.keys))), *values]
    rest = [*(f"{t}L" for t in frame.time), "1L"]
    named = zip([*row, *rest], names(len(row), frame.coordinates), strict=True)
    data = data.selectExpr("*", *sums).selectExpr(*(f"{text} AS {name}" for text, name in named))
    return Frame(data, len(row), frame.coordinates, frame.time, consolidated=frame.consolidated, inserted=True)


@attrs.frozen
class _Spec:
    """How a window is partitioned and ordered."""

    partition: str
    order: str
    ties: str

    @classmethod
    def of(cls, node: Reduce, windows: Windows) -> _Spec:
        width = len(node.inputs[0].schema)
        hashed = f"greatest(xxhash64({', '.join(f'c{i}' for i in windows.hash_columns)}), {-(2**63) + 1}L)"
        ties = [_sorted(o, hashed if o.column >= width else f"c{o.column}") for o in windows.ties]
        if any(o.column >= width for o in windows.ties):
            ties += [_sorted(OrderColumn(i), f"c{i}") for i in windows.row]
        order = [_sorted(o, f"c{o.column}") for o in windows.order]
        return cls(", ".join(f"c{k}" for k in node.keys), ", ".join(order), ", ".join([*order, *ties]))

    def over(self, call: BoundWindowCall) -> str:
        """Return the window that a call is over, with its frame."""
        frame = getattr(call, "frame", None)
        by = f"PARTITION BY {self.partition}"
        if frame is not None and frame.whole:
            return by if not call.by_row else f"{by} ORDER BY {self.ties} {_BETWEEN.format('ROWS', _WHOLE)}"
        by += f" ORDER BY {self.ties if call.by_row else self.order}"
        if frame is None:
            return by
        bounds = f"{_bound(frame.start, 'PRECEDING')} AND {_bound(frame.end, 'FOLLOWING')}"
        return f"{by} {_BETWEEN.format('ROWS' if frame.mode == 'rows' else 'RANGE', bounds)}"


_BETWEEN: Final = "{} BETWEEN {}"
_WHOLE: Final = "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def _sorted(by: OrderColumn, text: str) -> str:
    return f"{text} {'DESC' if by.descending else 'ASC'} NULLS {'FIRST' if by.nulls_first else 'LAST'}"


def _bound(offset: object, unbounded: str) -> str:
    if offset is None:
        return f"UNBOUNDED {unbounded}"
    assert isinstance(offset, int)
    return "CURRENT ROW" if not offset else f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


def _text(windows: Windows, call: BoundWindowCall, *, floats: bool) -> str | None:
    """Return a call without its window, of aggregates nothing; None where Spark has none that means the same."""
    if isinstance(call, RankingCall):
        buckets = None if call.buckets is None else _number(call.buckets, 1)
        known = bool(windows.order) and (call.buckets is None or buckets is not None)
        return f"{call.function}({'' if buckets is None else buckets})" if known else None
    if isinstance(call, OffsetCall):
        offset = _number(call.offset, 0)
        default = native_sql(call.default) if isinstance(call.default, BoundLiteral) else None
        known = offset is not None and default is not None and not call.ignore_nulls and bool(windows.ties)
        return (
            f"{call.function}(c{call.column}, {offset}, CAST({default} AS {sql_type(call.output)}))" if known else None
        )
    if not _has_frame(windows, call.frame, by_row=call.by_row):
        return None
    if isinstance(call, ValueCall):
        n = None if call.n is None else _number(call.n, 1)
        known = call.frame.mode == "rows" and (call.n is None or n is not None)
        argument = f"c{call.column}{'' if n is None else f', {n}'}"
        return f"{call.function}({argument}){' IGNORE NULLS' * call.ignore_nulls}" if known else None
    a = call.aggregate
    known = a.function in EXTREMES or (adds_up(a) and "squares" not in a.sums and (floats or not _has_limbs(call)))
    return "" if known and not call.distinct and a.condition is None else None


def _number(argument: object, least: int) -> int | None:
    """Return a number that is the same for all rows, from the least on."""
    value = argument.value if isinstance(argument, BoundLiteral) else None
    return value if isinstance(value, int) and least <= value <= _GREATEST_INT else None


def _has_frame(windows: Windows, frame: WindowFrame, *, by_row: bool) -> bool:
    """Return whether Spark has a frame, and does not take the square of the rows for it."""
    if frame.exclusion != "no others" or (by_row and not windows.ties):
        return False
    if frame.whole:
        return True
    if frame.mode != "rows":  # of peers, from the first row on
        return frame.start is None and frame.end == 0 and isinstance(frame.end, int) and bool(windows.order)
    if not all(b is None or (isinstance(b, int) and abs(b) < _GREATEST_INT) for b in (frame.start, frame.end)):
        return False
    if frame.start is None or frame.end is None:
        return frame.end is not None
    return 0 <= int(frame.end) - int(frame.start) < _SLIDING  # type: ignore[arg-type]


def _has_limbs(call: AggregateCall) -> bool:
    return (
        call.aggregate.input is not None and call.aggregate.input.name == "float64" and "total" in call.aggregate.sums
    )
