"""Which columns windows, groups and top-k read, and what is left of them when unread columns are dropped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from tidemill.dataflow.composites import Aggregate, TopK, Windowed
from tidemill.dataflow.passes.row_keys import is_told_apart_by
from tidemill.expressions.bound import Bound, BoundCall
from tidemill.expressions.rewriting import column_uses, columns_among
from tidemill.expressions.windows.bound import AggregateCall, BoundWindowCall

_ARGUMENTS: Final = ("buckets", "column", "offset", "default", "n")
_WORTH_A_HASH: Final = 2
"""Columns that are to go if the hash of the row is to be kept in their place, which is a column, too."""


@attrs.frozen
class Kept:
    """The calls and columns that are left of a window."""

    calls: tuple[int, ...]
    columns: tuple[int, ...]
    """The columns of its rows that somebody reads, calls included, or that break ties."""
    ties: bool = False
    """Whether ties are broken."""
    hashed: bool = False
    """Whether the hash that breaks them is kept in the place of columns."""


def read_by_window(node: Windowed, read: set[int]) -> Kept:
    """Return the rest of a window of which these columns are read.

    All columns order rows in ties. None need to where no two rows of a partition are alike in the order, or where
    rows that are have the same in all that is read. Else those may go that are the last ones by which rows with the
    same hash are distinguished, and the hash stays: rows that are equal then give the same, whichever comes first.
    """
    width, windows, columns = len(node.inputs[0].schema), node.bound.windows, node.bound.columns
    calls = tuple(i for i in range(len(windows.calls)) if width + i in read)
    needed = {i for i in read if i < width}
    if not calls:
        return Kept((), tuple(sorted(needed)))
    sorted_by = {*range(node.bound.keys), *(o.column for o in windows.order)}
    arguments = {p for i in calls for p in _places(windows.calls[i])}
    needed.update(i for p in sorted_by | arguments for i in column_uses(columns[p][1]))
    alike = columns_among(columns[p][1] for p in sorted_by)
    by_row = windows.ties and any(windows.calls[i].by_row for i in calls)
    if not by_row or needed <= alike or is_told_apart_by(node.inputs[0], alike):
        return Kept(calls, tuple(sorted(needed)) or (0,))
    first, *others = (o.column for o in windows.ties)
    told_by = [windows.row.index(place) for place in others]
    last = max((at for at, i in enumerate(told_by, 1) if i in needed), default=0)
    hash_of = columns[first][1]
    may_go = set(told_by[last:]) if isinstance(hash_of, BoundCall) and hash_of.function == "xxhash64" else set()
    hashed = len(may_go) >= _WORTH_A_HASH
    return Kept(calls, tuple(i for i in range(width) if not hashed or i not in may_go), ties=True, hashed=hashed)


def narrowed_window(node: Windowed, kept: Kept, columns: Mapping[int, Bound], row: Sequence[int]) -> dict[str, Any]:
    """Return the fields of a window with the calls kept, over rows that have those columns of its own.

    ``columns`` says for those that it computes what they are over these rows, by their places.
    """
    windows, bound = node.bound.windows, node.bound
    at = {place: i for i, place in enumerate(sorted(columns))}
    names = tuple(windows.names[i] for i in kept.calls)
    fewer = attrs.evolve(
        windows,
        order=tuple(attrs.evolve(o, column=at[o.column]) for o in windows.order),
        ties=tuple(attrs.evolve(o, column=at[o.column]) for o in windows.ties if kept.ties and o.column in at),
        calls=tuple(_moved(windows.calls[i], at) for i in kept.calls),
        names=names,
        row=tuple(at[place] for place in row),
        hashed=None if windows.hashed is None or kept.hashed or not kept.ties else tuple(at[i] for i in windows.hashed),
    )
    made = tuple((bound.columns[place][0], columns[place]) for place in sorted(columns))
    hold = tuple(name for name in bound.hold_frames if name in names)
    return {"bound": attrs.evolve(bound, columns=made, windows=fewer, hold_frames=hold)}


def places_of_window(node: Windowed, kept: Kept, columns: Iterable[int]) -> set[int]:
    """Return which of the columns that a window computes are left, where these are left of its rows."""
    windows = node.bound.windows
    found = {*range(node.bound.keys), *(o.column for o in windows.order), *(windows.row[i] for i in columns)}
    found.update(p for i in kept.calls for p in _places(windows.calls[i]))
    if kept.ties:
        found.add(windows.ties[0].column)
    return found


def read_by_first_rows(node: TopK, read: set[int]) -> set[int]:
    """Return which columns first rows have to have if these are read: all where ties are broken by them."""
    by = [*node.keys, *(key.expression for key in node.order)]
    needed = {*read, *(i for e in by for i in column_uses(e))}
    alike = columns_among(by)
    free = needed <= alike or is_told_apart_by(node.inputs[0], alike)
    return needed if free else set(range(len(node.schema)))


def read_by_group(node: Aggregate, calls: Iterable[int]) -> set[int]:
    """Return which columns a group reads for some of its aggregates: all where rows are in an order."""
    some = [node.aggregates[i] for i in calls]
    if any(call.order for call in some):
        return set(range(len(node.inputs[0].schema)))
    read = [*node.keys, *(e for call in some for e in (call.argument, call.condition) if e is not None)]
    return {i for e in read for i in column_uses(e)}


def _places(call: BoundWindowCall) -> Iterable[int]:
    """Return the columns that a call reads, but for those that a list is in the order of."""
    aggregate = call.aggregate if isinstance(call, AggregateCall) else None
    read = (aggregate.column, aggregate.condition) if aggregate else (getattr(call, n, None) for n in _ARGUMENTS)
    return (place for place in read if isinstance(place, int))


def _moved(call: BoundWindowCall, at: Mapping[int, int]) -> BoundWindowCall:
    """Return a call that reads columns at other places."""
    if isinstance(call, AggregateCall):
        read = call.aggregate
        column, condition = (None if p is None else at[p] for p in (read.column, read.condition))
        order = tuple(attrs.evolve(o, column=at[o.column]) for o in read.order if o.column in at)
        return attrs.evolve(call, aggregate=attrs.evolve(read, column=column, condition=condition, order=order))
    arguments = {name: getattr(call, name, None) for name in _ARGUMENTS}
    changes: dict[str, Any] = {name: at[place] for name, place in arguments.items() if isinstance(place, int)}
    return attrs.evolve(call, **changes)
