"""Views over tables that are kept up to date: declared once, refreshed for the price of what changed."""

from __future__ import annotations

import datetime as dt
import functools
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.boundary.likeness import schema_like
from tidemill.collections.collection import Collection
from tidemill.errors import StateError, UnknownNameError, ViewError, did_you_mean
from tidemill.expressions.schema import SchemaLike
from tidemill.flow import Dataflow
from tidemill.renderer.engines import Embedded
from tidemill.renderer.runs.run import Run
from tidemill.renderer.runs.subscriptions import Subscription
from tidemill.views.journal import Refresh, RefreshJournal, digest_of
from tidemill.views.stores import Sink, Source, plain, without_zones
from tidemill.views.writing import DIFF, DeclaredView, Due, Way, choices, write

_TIME: Final = "__time"
"""What the column of times is called among a view's own, where it is read."""


@attrs.frozen
class _Declared:
    """A source as it was declared."""

    source: Source
    schema: pa.Schema
    key: tuple[str, ...]


class Views:
    """Views over tables: sources, collections computed from them, and the tables that these are written to.

    ``state`` is a folder, where all that is known is kept; ``engine`` what keeps the views up to date, `Embedded` if
    nothing is said, or ``tm.Spark(spark)``. `refresh` reads what changed in the sources since the last refresh and
    writes what that changes in the views, each exactly once, also where one was cut off. One process at a time
    refreshes; also a context manager, which closes it.

    >>> import tempfile, pathlib, pandas as pd, tidemill as tm
    >>> folder = tempfile.TemporaryDirectory()
    >>> orders, day = pd.DataFrame({"region": ["north", "south"], "amount": [7, 5]}), pathlib.Path(folder.name, "in")
    >>> day.mkdir()
    >>> orders.to_parquet(day / "monday.parquet")
    >>> with tm.Views(pathlib.Path(folder.name, "state")) as views:
    ...     items = views.source("items", tm.files(f"{day}/*.parquet"))
    ...     by_region = items.group_by("region").agg(total=tm.sum("amount"))
    ...     views.view("by_region", by_region, to=tm.files(f"{folder.name}/by_region.parquet"), key="region")
    ...     views.refresh().is_new
    ...     views.refresh().is_new
    ...     orders.head(1).to_parquet(day / "tuesday.parquet")
    ...     views.refresh().views["by_region"].changed
    True
    False
    2
    >>> pd.read_parquet(f"{folder.name}/by_region.parquet").values.tolist()
    [['north', 14], ['south', 5]]
    >>> folder.cleanup()
    """

    def __init__(self, state: str | os.PathLike[str], engine: Any = None) -> None:
        self.flow = Dataflow("views")
        """The dataflow of all views, for what `source` and `view` do not make, such as constants."""
        self._folder = Path(state)
        self._engine = Embedded() if engine is None else engine
        if getattr(self._engine, "state", "") is not None:
            msg = f"tm.Views({os.fspath(state)!r}, {self._engine!r}): expected one without state, which is kept here"
            raise ViewError(msg)
        self._journal = RefreshJournal(self._folder)
        self._sources: dict[str, _Declared] = {}
        self._views: dict[str, DeclaredView] = {}
        self._run: Run | None = None
        self._run_name = ""
        self._readers: dict[str, Subscription] = {}
        """By the names of the views."""

    # -- what there is ------------------------------------------------------------------------------------------------

    def source(
        self,
        name: str,
        store: Source,
        *,
        key: str | Sequence[str] | None = None,
        schema: SchemaLike | None = None,
        watermark: Any = None,
    ) -> Collection:
        """Return the rows of a table, `delta`, `files` or `snapshot`, as a collection.

        ``key`` names the columns that tell its rows apart, where there are such: a row then takes the place of that
        with its key. ``schema`` is taken from the table if nothing is said; columns that it does not name are left out.
        """
        if not isinstance(store, Source):
            msg = f"views.source({name!r}, {store!r}): expected tm.delta(...), tm.files(...) or tm.snapshot(...)"
            raise ViewError(msg)
        store.keep_in(self._folder / "sources" / quote(name, safe=""))
        columns = schema_like(without_zones(store.schema())) if schema is None else schema
        made = self.flow.input(name, columns, key=key, watermark=watermark)
        keys = (key,) if isinstance(key, str) else tuple(key or ())
        self._sources[name] = _Declared(store, pa.schema([(f.name, f.dtype.arrow) for f in made.schema]), keys)
        return made

    def view(
        self,
        name: str,
        collection: Collection,
        *,
        to: Sink | None = None,
        key: str | Sequence[str] | None = None,
        write: Way = "auto",
    ) -> None:
        """Keep a collection up to date under a name, and the table ``to`` with it.

        ``key`` names columns that tell its rows apart. ``write`` says how the table takes changes: ``"merge"`` by the
        key, ``"overwrite"`` whole, ``"auto"`` whichever costs less by what the last refreshes took, or ``"changelog"``:
        the table has a row for each row that came or went, with ``_change`` (insert, delete) and ``_refresh``.
        """
        if to is not None and not isinstance(to, Sink):
            msg = f"views.view({name!r}, ..., to={to!r}): expected tm.delta(...) or tm.files(...)"
            raise ViewError(msg)
        keys = (key,) if isinstance(key, str) else tuple(key or ())
        made = DeclaredView(name, collection, to, keys, write)
        self.flow.output(name, collection, changes=False)
        self._views[name] = made

    def sql(
        self,
        text: str,
        *,
        to: Mapping[str, Sink] | None = None,
        key: Mapping[str, str | Sequence[str]] | None = None,
        dialect: str = "spark",
    ) -> Any:
        """Take a SQL script over the sources, whose materialized views are views; return what `Dataflow.sql` does.

        ``to`` says by the names of views where they are written to, ``key`` which columns tell their rows apart.
        """
        before = dict(self.flow.graph.outputs)
        made = self.flow.sql(text, dialect)
        new = {name: node for name, node in self.flow.graph.outputs.items() if name not in before}
        for name in {**(to or {}), **(key or {})}:
            if name not in new:
                msg = f"views.sql: no materialized view {name!r} to write, or with a key: {did_you_mean(name, new)}"
                raise UnknownNameError(msg)
        for name, node in new.items():
            keys = (key or {}).get(name) or ()
            keys = (keys,) if isinstance(keys, str) else tuple(keys)
            (read,) = node.inputs
            collection = Collection(self.flow, read)
            self._views[name] = DeclaredView(name, collection, (to or {}).get(name), keys, "auto")
        return made

    # -- refreshing ---------------------------------------------------------------------------------------------------

    def refresh(self, *, full: bool | Sequence[str] = False) -> Refresh:
        """Read what changed in the sources, bring every view up to that, write it; return what was done.

        The version of each source is fixed first. Where nothing is new nothing is started. ``full=True`` reads all
        sources anew and writes all tables whole, ``full=["view"]`` writes the tables of these views whole.

        Cost: that of the changes in the sources and the views, and of the ways tables are written by; see `explain`.
        """
        anew = set(self._views) if full is True else set(full or ())
        for name in anew - self._views.keys():
            msg = f"views.refresh(full=[{name!r}]): no view {name!r}: {did_you_mean(name, self._views)}"
            raise UnknownNameError(msg)
        began = time.perf_counter()
        last, plan = self._journal.last(), self._journal.plan()
        if plan is None or full is True:
            versions = self._versions({} if last is None else last.versions)
            if last is not None and not anew and self._is_current(last, versions):
                return attrs.evolve(
                    last, seconds=time.perf_counter() - began, read=dict.fromkeys(last.read, 0),
                    views={n: attrs.evolve(v, way="", changed=0, seconds=0.0) for n, v in last.views.items()},
                )  # fmt: skip
            number = 1 + max(0 if last is None else last.number, 0 if plan is None else plan["number"])
            run = "run-1" if last is None else f"run-{number}" if full is True else last.run
            plan = {"number": number, "versions": versions, "run": run}
        return self._go_on(plan, last, began, anew)

    def _go_on(self, plan: Mapping[str, Any], last: Refresh | None, began: float, anew: set[str]) -> Refresh:
        """Do what a plan says and is not done yet."""
        run = self._open(plan["run"])  # which nobody else has open
        self._journal.begin(plan)
        if last is not None and last.run != plan["run"]:
            last = None
        number, versions, owner = plan["number"], plan["versions"], self._journal.name()
        since = {} if last is None else last.versions
        read = dict.fromkeys(self._sources, 0)
        if since != versions or last is None:
            run.deliver("refresh", number, lambda into: self._put(into, since, versions, read))
        history, written, done = self._journal.history(), {}, 0 if last is None else last.epoch
        for name, view in self._views.items():
            changes, is_whole = _changes(view, self._readers[name], done)
            due = Due(number, owner, changes, functools.partial(_contents, run, name))
            written[name] = write(view, due, history, anew=is_whole or name in anew)
        seconds, now = time.perf_counter() - began, dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        epochs = [frontier.elements[0][0] for name in self._sources if (frontier := run.frontier(name)).elements]
        digest = digest_of(self.flow.graph)
        refresh = Refresh(number, now, seconds, versions, read, written, plan["run"], min(epochs, default=0), digest)
        self._journal.done(refresh)
        self._tidy(refresh)
        return refresh

    def _put(self, run: Run, since: Mapping[str, Any], until: Mapping[str, Any], read: dict[str, int]) -> None:
        for name, declared in self._sources.items():
            before = since.get(name)
            if before == until[name]:
                continue
            for table, diff in declared.source.changes(before, until[name]):
                rows = plain(table, declared.schema, f"source {name!r}")
                read[name] += rows.num_rows
                if diff > 0:
                    run.insert(name, rows)
                else:
                    run.delete(name, rows.select(declared.key) if declared.key else rows)

    def _versions(self, last: Mapping[str, Any]) -> dict[str, Any]:
        return {n: d.source.version(last.get(n)) for n, d in self._sources.items()}

    def _is_current(self, last: Refresh, versions: Mapping[str, Any]) -> bool:
        return last.versions == versions and last.dataflow == digest_of(self.flow.graph)

    def _open(self, name: str) -> Run:
        """Return the run of a folder, with a reader of each view that goes on where the last refresh was done."""
        if self._run is not None and self._run_name != name:
            self.close()
        if self._run is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            run = self.flow.start(attrs.evolve(self._engine, state=str(self._folder / name)))
            try:
                self._readers = {view: run.subscribe(view, name=f"views {view}") for view in self._views}
            except BaseException:
                run.close()
                raise
            self._run, self._run_name = run, name
        return self._run

    def _tidy(self, refresh: Refresh) -> None:
        """Release what no refresh will ask for any more."""
        for reader in self._readers.values():
            reader.ack()
        for folder in self._folder.glob("run-*"):
            if folder.name != refresh.run:
                shutil.rmtree(folder)
        for name, declared in self._sources.items():
            declared.source.forget(refresh.versions[name])

    # -- what is known ------------------------------------------------------------------------------------------------

    def status(self) -> str:
        """Return a table of sources, with the versions read and there, and of views, with their rows and tables."""
        last, plan = self._journal.last(), self._journal.plan()
        lines = [f"{self._folder}: " + ("never refreshed" if last is None else f"refresh {last.number}, {last.at}")]
        if plan is not None:
            lines.append(f"  refresh {plan['number']} was cut off: the next one goes on with it")
        read = {} if last is None else last.versions
        for name, declared in self._sources.items():
            behind = read.get(name) != declared.source.version(read.get(name))
            lines.append(f"  source {name}: {declared.source}, " + ("has news" if behind else "read"))
        for name, view in self._views.items():
            was = None if last is None else last.views.get(name)
            rows = "never written" if was is None else f"{was.rows:,} rows"
            lines.append(f"  view {name}: {rows}, {'in the state alone' if view.to is None else view.to}")
        return "\n".join(lines)

    def history(self) -> list[Refresh]:
        """Return the refreshes that are done, oldest first."""
        return self._journal.history()

    def explain(self) -> str:
        """Return how each view is computed, and what writing it costs by each way, for as many changes as last time."""
        history = self._journal.history()
        lines = []
        for name, view in self._views.items():
            was = history[-1].views.get(name) if history else None
            rows, changed = (0, 0) if was is None else (was.rows, was.changed)
            costs = choices(view, rows, changed, history)
            told = ", ".join(f"{way} {seconds:.2f} s" for way, seconds in costs.items()) or "not written anywhere"
            lines.append(f"view {name}: {changed:,} changes of {rows:,} rows: {told}")
        return "\n".join([*lines, self.flow.explain()])

    def snapshot(self, name: str) -> Any:
        """Return what a view holds since the last refresh."""
        last = self._journal.last()
        if last is None:
            msg = f"views.snapshot({name!r}): nothing was refreshed yet: views.refresh()"
            raise StateError(msg)
        return self._open(last.run).snapshot(name)

    def close(self) -> None:
        """Release the state, so that other processes can refresh."""
        if self._run is not None:
            self._run.close()
            self._run = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _changes(view: DeclaredView, reader: Subscription, done: int) -> tuple[pa.Table, bool]:
    """Return what a view changed by since an epoch, with its columns and diffs, and whether that is all it holds."""
    schema = pa.schema([*((f.name, f.dtype.arrow) for f in view.collection.schema), (DIFF, pa.int64())])
    batches, is_whole = [schema.empty_table()], False
    for batch in reader:
        is_whole |= batch.lower.elements == ((0,),)
        table = batch.to_arrow(time=_TIME, diff=DIFF)
        batches.append(table.filter(pc.greater_equal(table[_TIME], done)).select(schema.names).cast(schema))
    return pa.concat_tables(batches), is_whole


def _contents(run: Run, name: str) -> pa.Table:
    return run.snapshot(name).in_no_order()
