"""How a view's sink takes what a refresh changed: the way that costs least, said beforehand and measured afterwards."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.boundary.results import Rows
from tidemill.collections.collection import Collection
from tidemill.dataflow.passes.row_keys import is_told_apart_by
from tidemill.errors import ViewError
from tidemill.expressions.aggregate_functions import count
from tidemill.flow import Dataflow
from tidemill.views.journal import Written
from tidemill.views.stores import CHANGE, Sink, plain

Way: TypeAlias = Literal["auto", "merge", "overwrite", "changelog"]
WAYS: Final = ("auto", "merge", "overwrite", "changelog")
DIFF: Final = "__diff"
"""What the column of diffs is called among the view's own."""
TIME: Final = "__time"
REFRESH: Final = "_refresh"


@attrs.frozen
class DeclaredView:
    """A collection under a name, and where it is written to."""

    name: str
    collection: Collection
    to: Sink | None
    key: tuple[str, ...]
    write: Way
    is_sql: bool = False

    def __attrs_post_init__(self) -> None:
        where = f"view {self.name!r}"
        if self.write not in WAYS:
            msg = f"{where}: write={self.write!r}: expected one of {', '.join(WAYS)}"
            raise ViewError(msg)
        self.collection.schema.project(self.key)
        if taken := {DIFF, TIME, CHANGE, REFRESH} & set(self.collection.schema.names):
            msg = f"{where}: columns called {', '.join(sorted(taken))} are tidemill's own here: call them otherwise"
            raise ViewError(msg)
        if self.to is None:
            return
        if self.write not in {"auto", *self.to.ways}:
            msg = f"{where}: write={self.write!r}: {self.to} takes {', '.join(sorted(self.to.ways))}"
            raise ViewError(msg)
        if self.write == "merge" and not self.key:
            msg = f"{where}: write='merge' needs key=[...], the columns that tell its rows apart"
            raise ViewError(msg)
        if self.write == "merge" and self._nested_keys():
            told = ", ".join(self._nested_keys())
            msg = f"{where}: write='merge' by the lists or structs {told}: give a key of plain values, or write='auto'"
            raise ViewError(msg)

    def _nested_keys(self) -> list[str]:
        """Return the columns of its key that have values within values, by which rows are not merged."""
        return [f.name for f in self.collection.schema if f.name in self.key and pa.types.is_nested(f.dtype.arrow)]

    def costs(self, rows: int, changed: int, paces: Mapping[str, float]) -> dict[str, float]:
        """Return the ways that it may be written by, with about how many seconds each takes, by those it took last."""
        if self.to is None:
            return {}
        if self.write != "auto":
            ways: list[str] = [self.write]
        else:
            can_merge = self.key and "merge" in self.to.ways and not self._nested_keys()
            ways = ["overwrite", *(["merge"] if can_merge else [])]
        return {way: self.to.seconds(way, rows, changed) * paces.get(way, 1.0) for way in ways}

    @property
    def may_repeat_keys(self) -> bool:
        """Whether several of its rows may have one key, for all that the dataflow shows."""
        columns = map(self.collection.schema.index, self.key)
        return bool(self.key) and not is_told_apart_by(self.collection.node, columns)

    def repeated_keys(self) -> Collection:
        """Return the keys that several of its rows have."""
        return self.collection.group_by(*self.key).agg(**{DIFF: count()}).filter(f"{DIFF} > 1")

    def require_unique(self, repeated: Rows) -> None:
        """`ViewError` where there are such keys."""
        for *key, times in repeated:
            named = dict(zip(self.key, key, strict=True))
            msg = (
                f"view {self.name!r}: {times} rows have the key {named}: key= names columns "
                "that tell its rows apart. No table was written: give another key, or refresh when the sources are "
                "mended"
            )
            raise ViewError(msg)


@attrs.frozen
class Due:
    """A refresh that a sink is to be brought up to."""

    number: int
    owner: str
    reached: int | None
    """The refresh that the sink has."""
    changes: pa.Table
    """What it changed in the view: its columns, and how many of each row came or went."""
    contents: Callable[[], pa.Table]
    """Reads all that the view holds."""
    is_whole: bool
    """Whether the changes are all that the view holds."""
    is_asked: bool
    """Whether somebody asks for the table to be written anew."""
    is_again: bool
    """Whether a sink that is there already has what it should: it was planned so, and nobody asks for it anew."""


@contextlib.contextmanager
def together(views: Sequence[DeclaredView]) -> Iterator[Sequence[DeclaredView]]:
    """Give views, whose sinks are of one database, with these as they are in one transaction."""
    sinks = [view.to for view in views if view.to is not None]
    if not sinks:
        yield views
        return
    with sinks[0].together(sinks) as shared:
        yield [attrs.evolve(view, to=sink) for view, sink in zip(views, shared, strict=True)]


def write(view: DeclaredView, due: Due, was: Written | None) -> Written:
    """Bring a view's sink up to a refresh, unless it is there already; return what was done."""
    changed, more = due.changes.num_rows, pc.sum(due.changes[DIFF]).as_py() or 0
    rows = due.contents().num_rows if was is None or due.is_whole or due.is_asked else was.rows + more
    to, said = view.to, [repr(view.to), view.write == "changelog", list(view.key)]
    done = Written("", rows, changed, 0.0, None, said, 0)
    if to is None:
        return done
    reached = due.reached
    if reached == due.number and due.is_again:  # by a refresh that was cut off behind it
        return attrs.evolve(done, way="again", sink=to.state(), number=reached)
    began, costs = time.perf_counter(), {"overwrite": 0.0}
    paces: Mapping[str, float] = {}
    if was is not None and was.said == said:
        paces = was.paces
        if was.number == reached and not due.is_whole and not due.is_asked:  # it has what was written last
            to.require_own(was.sink)
            if not changed:
                return attrs.evolve(done, sink=was.sink, number=was.number, paces=paces)
            costs = view.costs(rows, changed, paces)
    has_log = reached is not None or (to.keeps_logs and was is not None and was.said == said)
    if view.write == "changelog" and "changelog" not in costs and has_log and not due.is_asked:
        log = _log(to)
        if log is not None and {CHANGE, REFRESH} <= set(log.column_names):
            due = attrs.evolve(due, changes=_beyond(view, log, due.contents()))
            done = attrs.evolve(done, changed=due.changes.num_rows)
            costs = {"changelog": 0.0}
    way = min(costs, key=lambda w: costs[w])
    _write(view, to, way, due)
    seconds = time.perf_counter() - began
    paces = _paced(paces, way, seconds / to.seconds(way, rows, done.changed))
    return attrs.evolve(done, way=way, seconds=seconds, sink=to.state(), number=due.number, paces=paces)


def _paced(paces: Mapping[str, float], way: str, pace: float) -> dict[str, float]:
    """Return the paces of ways with that of one: a way that was slow once, on a busy machine, is tried again."""
    return {**{w: p**0.97 for w, p in paces.items()}, way: (paces.get(way, pace) * pace) ** 0.5}


def _write(view: DeclaredView, to: Sink, way: str, due: Due) -> None:
    to_whom = f"{due.owner}:{view.name}", due.number
    if way == "changelog":
        to.append(_logged(_repeated(due.changes), due.number), *to_whom)
    elif way == "merge" and not any(due.changes[k].null_count for k in view.key):  # NULL finds no row
        to.merge(_by_key(view, due.changes), view.key, *to_whom)
    else:
        table = due.contents()
        if view.write == "changelog":
            table = _logged(table.append_column(DIFF, pa.repeat(1, table.num_rows)), due.number)
        to.overwrite(table, *to_whom)


def _log(to: Sink) -> pa.Table | None:
    """Return what is in a changelog, None where it is not there any more."""
    try:
        return to.rows()
    except ViewError:
        return None


def _beyond(view: DeclaredView, log: pa.Table, now: pa.Table) -> pa.Table:
    """Return what a view holds beyond what its changelog comes to, where that is of an earlier version of the view."""
    before = log.drop_columns([CHANGE, REFRESH])
    try:
        if before.num_columns == now.num_columns:
            before = plain(before, now.schema, "its changelog").cast(now.schema)
    except (ViewError, pa.ArrowException) as error:
        raise _other_columns(view, before, now) from error
    if before.schema != now.schema:
        raise _other_columns(view, before, now)
    signs = pc.if_else(pc.equal(log[CHANGE], "insert"), -1, 1)
    return net(view, [before.append_column(DIFF, signs), now.append_column(DIFF, pa.repeat(1, now.num_rows))])


def _other_columns(view: DeclaredView, before: pa.Table, now: pa.Table) -> ViewError:
    columns = [", ".join(f"{f.name} {f.type}" for f in table.schema) for table in (now, before)]
    return ViewError(
        f"view {view.name!r}: it has the columns {columns[0]} now, and its changelog {view.to} has {columns[1]}: give "
        f"it another table, or begin the log anew with views.refresh(full=[{view.name!r}])"
    )


def net(view: DeclaredView, updates: Sequence[pa.Table]) -> pa.Table:
    """Return the sum of some updates of a view, by its rows."""
    schema = pa.schema([*((f.name, f.dtype.arrow) for f in view.collection.schema), (DIFF, pa.int64())])
    if len(updates) < 2:  # noqa: PLR2004 - they are sums already
        return updates[0] if updates else schema.empty_table()
    flow = Dataflow("sum of updates")
    flow.output("rows", flow.input("rows", view.collection.schema))
    with flow.start() as run:
        for table in updates:
            run.update("rows", table.append_column(TIME, pa.repeat(0, table.num_rows)), time=TIME, diff=DIFF)
        run.advance()
        return run.changes("rows").to_arrow(time=TIME, diff=DIFF).select(schema.names).cast(schema)


def _repeated(changes: pa.Table) -> pa.Table:
    """Return updates as rows, each as often as its diff says."""
    times = pc.abs(changes[DIFF]).to_numpy()
    return changes if (times == 1).all() else changes.take(np.arange(changes.num_rows).repeat(times))


def _logged(updates: pa.Table, number: int) -> pa.Table:
    """Return rows of a changelog: ``_change`` is insert or delete, ``_refresh`` the number of the refresh."""
    change = pc.if_else(pc.greater(updates[DIFF], 0), "insert", "delete")
    table = updates.drop_columns([DIFF]).append_column(CHANGE, change)
    return table.append_column(REFRESH, pa.repeat(number, updates.num_rows))


def _numbered(table: pa.Table, name: str) -> pa.Table:
    return table.append_column(name, pa.array(np.arange(table.num_rows)))


def _by_key(view: DeclaredView, changes: pa.Table) -> pa.Table:
    """Return one row for each key that changed: what it is now, or what it was where it is gone."""
    keys = list(view.key)
    came, went = (changes.filter(test(changes[DIFF], 0)).drop_columns([DIFF]) for test in (pc.greater, pc.less))
    left, right = (_numbered(table.select(keys), name) for table, name in ((came, DIFF), (went, TIME)))
    pairs = left.join(right, keys, join_type="full outer")
    is_old, is_new = pc.is_null(pairs[DIFF]), pc.is_null(pairs[TIME])
    parts = [
        came.take(pairs.filter(is_new)[DIFF]),
        came.take(pairs.filter(pc.invert(pc.or_(is_old, is_new)))[DIFF]),
        went.take(pairs.filter(is_old)[TIME]),
    ]
    kinds = zip(parts, ("insert", "update", "delete"), strict=True)
    return pa.concat_tables([part.append_column(CHANGE, pa.repeat(kind, part.num_rows)) for part, kind in kinds])
