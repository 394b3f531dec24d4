"""Views over tables that are kept up to date: declared once, refreshed for the price of what changed."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias
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
from tidemill.renderer.runs.subscriptions import Subscription, ack_together
from tidemill.views.journal import Refresh, RefreshJournal, digest_of
from tidemill.views.stores import Sink, Source, plain
from tidemill.views.writing import DIFF, TIME, DeclaredView, Due, Way, net, together, write

_Before: TypeAlias = tuple[Refresh | None, Mapping[str, Any] | None]
"""The last refresh that is done, and the one under way."""


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
        self._digested: tuple[Any, str] | None = None
        """Of which declarations a digest was made last, and the digest."""
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
        """Return the rows of a table, such as `delta`, `files`, `kafka`, `postgres` or `snapshot`, as a collection.

        ``key`` names the columns that tell its rows apart, where there are such: a row then takes the place of that
        with its key. ``schema`` is taken from the table if nothing is said; columns that it does not name are left out.
        """
        if not isinstance(store, Source):
            expected = "tm.delta, tm.files, tm.iceberg, tm.kafka, tm.postgres, tm.snapshot"
            msg = f"views.source({name!r}, {store!r}): expected one of {expected}"
            raise ViewError(msg)
        keys = (key,) if isinstance(key, str) else tuple(key or ())
        if store.needs_key and not keys:
            msg = f"views.source({name!r}, {store}): expected key=[...], the columns of its primary key"
            raise ViewError(msg)
        store.keep_in(self._folder / "sources" / quote(name, safe=""), keys)
        columns = schema_like(store.schema()) if schema is None else schema
        made = self.flow.input(name, columns, key=key, watermark=watermark)
        store.read_as(made.schema)
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
            msg = f"views.view({name!r}, ..., to={to!r}): expected one of tm.delta, tm.files, tm.duckdb, tm.postgres"
            raise ViewError(msg)
        keys = (key,) if isinstance(key, str) else tuple(key or ())
        self._require_own_table(name, to)
        made = DeclaredView(name, collection, to, keys, write)
        self.flow.output(name, collection, changes=False)
        self._keep(made)

    def _keep(self, view: DeclaredView) -> None:
        if view.may_repeat_keys:  # to count its rows by key is an arrangement of all of them
            self.flow.output(_repeated(view.name), view.repeated_keys(), changes=False)
        self._views[view.name] = view

    def _require_own_table(self, name: str, to: Sink | None) -> None:
        others = [v.name for v in self._views.values() if to is not None and repr(v.to) == repr(to)]
        if others:
            msg = f"view {name!r}: {to} is written by the view {others[0]!r}: give each a table of its own"
            raise ViewError(msg)

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
            self._require_own_table(name, (to or {}).get(name))
            self._keep(DeclaredView(name, collection, (to or {}).get(name), keys, "auto", is_sql=True))
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
        began, declared = time.perf_counter(), self._declared()
        last, found = before = self._journal.state()
        now = None
        if last is not None and found is None and not anew and last.dataflow == declared:
            now = self._versions(last.versions)
            if last.versions == now and all(last.views[name].number == n for name, n in self._reached().items()):
                for name in last.versions.keys() & self._sources:
                    self._sources[name].source.rest(last.versions[name]["at"])
                nothing = {n: attrs.evolve(v, way="", changed=0, seconds=0.0) for n, v in last.views.items()}
                read = dict.fromkeys(last.read, 0)
                return attrs.evolve(last, seconds=time.perf_counter() - began, read=read, views=nothing)
        return self._go_on(began, anew, declared, before, now, full=full is True)

    def _go_on(
        self, began: float, anew: set[str], declared: str, before: _Before, now: dict[str, Any] | None, *, full: bool
    ) -> Refresh:
        """Do what was planned and is not done yet, or else what there is to do, up to the versions there are now."""
        last, found = before
        plan = None if full or found is None or "refused" in found else found
        behind = None if full else found
        name = None if full else found["run"] if found is not None else None if last is None else last.run
        done, since = (0, {}) if last is None or last.run != name else (last.epoch, last.versions)
        if plan is None and now is None:  # before tables are at hand, which some may be read from
            now = self._versions(since if behind is None else behind["versions"])
        with self._sinks_at_hand():
            reached = self._reached()
            numbers = [0 if last is None else last.number, 0 if found is None else found["number"]]
            numbers += [n or 0 for n in reached.values()]  # the state may be an older copy
            number = 1 + max(numbers) if plan is None else plan["number"]
            run = self._open(name or f"run-{number}")  # which nobody else has open, from here on
            if (state := self._journal.state()) != before:  # somebody did meanwhile
                return self._go_on(began, anew, declared, state, None, full=full)
            if plan is not None:  # whoever began it may have written more since
                reached = self._reached()
            if plan is None:
                assert now is not None
                plan = self._planned(number, since, behind, now, declared)
            versions = {n: v for n, v in plan["versions"].items() if n in self._sources}  # what came since waits
            read = dict.fromkeys(self._sources, 0)
            if last is None or last.run != name or plan["since"] != versions:
                self._deliver(run, plan, versions, read)
            self._require_unique(run, plan)
            written = {}
            for views in self._by_database():
                with together(views) as shared:
                    for view in shared:
                        is_asked = view.name in anew
                        is_again = plan["declared"] == declared and not is_asked
                        changes, is_whole = _changes(view, self._readers[view.name], done)
                        contents = functools.cache(functools.partial(_contents, run, view.name))
                        to_whom = number, self._journal.name(), reached.get(view.name)
                        due = Due(*to_whom, changes, contents, is_whole, is_asked, is_again)
                        written[view.name] = write(view, due, None if last is None else last.views.get(view.name))
            written = {name: written[name] for name in self._views}
            seconds, at = time.perf_counter() - began, dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
            epochs = [frontier.elements[0][0] for name in self._sources if (frontier := run.frontier(name)).elements]
            epoch = min(epochs, default=0)
            refresh = Refresh(number, at, seconds, versions, read, written, plan["run"], epoch, declared)
            self._journal.done(refresh)
        self._tidy(run, refresh)
        return refresh

    def _planned(
        self,
        number: int,
        since: Mapping[str, Any],
        behind: Mapping[str, Any] | None,
        now: dict[str, Any],
        declared: str,
    ) -> Mapping[str, Any]:
        """Return what a refresh is to do, on the disk, with versions of the sources that stay."""
        since = since if behind is None else behind["versions"]
        for name, version in now.items():
            was = since.get(name)
            if was is not None and was["of"] != version["of"]:
                msg = (
                    f"source {name!r} is another table than the one that was read, or has other columns: it was "
                    f"{was['of']}, it is {version['of']}; views.refresh(full=True) reads all sources anew"
                )
                raise ViewError(msg)
            self._sources[name].source.fix(version["at"])
        begins = {"number": number, "run": self._run_name, "since": since, "behind": behind}
        plan = {**begins, "versions": now, "declared": declared}
        self._journal.begin(plan)
        return plan

    def _deliver(self, run: Run, plan: Mapping[str, Any], versions: Mapping[str, Any], read: dict[str, int]) -> None:
        try:
            run.deliver("refresh", plan["number"], lambda into: self._put(into, plan["since"], versions, read))
        except ViewError:  # of a source: nothing was taken, and the next refresh may find it otherwise
            self._journal.give_up(plan)
            raise

    def _require_unique(self, run: Run, plan: Mapping[str, Any]) -> None:
        """Refuse a refresh as a whole where a view has two rows of one key; the next one goes on from what was read."""
        try:
            for view in self._views.values():
                if view.may_repeat_keys:
                    view.require_unique(run.snapshot(_repeated(view.name)))
        except ViewError:
            self._journal.refuse(plan)
            raise

    def _put(self, run: Run, since: Mapping[str, Any], until: Mapping[str, Any], read: dict[str, int]) -> None:
        for name, version in until.items():
            declared, before = self._sources[name], since.get(name)
            if before == version:
                continue
            for table, diff in declared.source.changes(None if before is None else before["at"], version["at"]):
                rows = plain(table, declared.schema, f"source {name!r}")
                read[name] += rows.num_rows
                if diff > 0:
                    run.insert(name, rows)
                else:
                    run.delete(name, rows.select(declared.key) if declared.key else rows)

    def _versions(self, last: Mapping[str, Any]) -> dict[str, Any]:
        """Return for each source which table it is, with which columns, and at which version it is now."""
        found = {}
        for name, declared in self._sources.items():
            identity, version = declared.source.now(last[name]["at"] if name in last else None)
            found[name] = {"of": f"{identity} ({', '.join(declared.schema.names)})", "at": version}
        return found

    def _declared(self) -> str:
        """Return what tells these declarations from others, by what is computed, and where it is written to and how."""
        said = [(v.name, repr(v.to), v.write, v.key) for v in self._views.values()]
        now = len(self.flow.graph.nodes), said  # nodes are added, and stay as they are
        if self._digested is None or self._digested[0] != now:
            self._digested = now, digest_of(self.flow.graph, said)
        return self._digested[1]

    def _reached(self) -> dict[str, int | None]:
        """Return for each view that is written which refresh wrote it last."""
        owner = self._journal.name()
        reached: dict[str, int | None] = {}
        with self._sinks_at_hand():
            for views in self._by_database():
                sinks = [v.to for v in views if v.to is not None]
                if sinks:
                    found = sinks[0].refreshes(sinks, [f"{owner}:{v.name}" for v in views])
                    reached.update(zip([v.name for v in views], found, strict=True))
        return reached

    def _by_database(self) -> list[list[DeclaredView]]:
        """Return the views, those together whose tables are written in one transaction."""
        found: dict[Any, list[DeclaredView]] = {}
        for view in self._views.values():
            found.setdefault((view.name,) if view.to is None else view.to.shared(), []).append(view)
        return [*found.values()]

    @contextlib.contextmanager
    def _sinks_at_hand(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for first, *_ in self._by_database():
                if first.to is not None:
                    stack.enter_context(first.to.at_hand())
            yield

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

    def _tidy(self, run: Run, refresh: Refresh) -> None:
        """Release what no refresh will ask for any more."""
        ack_together([*self._readers.values()])
        for name in self._readers:
            if self._views[name].is_sql:  # changes are kept of it for whoever asks for them
                run.changes(name)
        for folder in self._folder.glob("run-*"):
            if folder.name != refresh.run:
                shutil.rmtree(folder)
        self._forget(refresh)

    def _forget(self, refresh: Refresh) -> None:
        """Have the sources release what is not needed, also where they had nothing new: others may have had."""
        for name, declared in self._sources.items():
            if name in refresh.versions:
                declared.source.forget(refresh.versions[name]["at"])

    # -- what is known ------------------------------------------------------------------------------------------------

    def status(self) -> str:
        """Return a table of sources, with the versions read and there, and of views, with their rows and tables."""
        last, plan = self._journal.last(), self._journal.plan()
        lines = [f"{self._folder}: " + ("never refreshed" if last is None else f"refresh {last.number}, {last.at}")]
        if plan is not None:
            what = "refused" if "refused" in plan else "cut off"
            lines.append(f"  refresh {plan['number']} was {what}: the next one goes on with it")
        read = {} if last is None else last.versions
        now = self._versions(read)
        for name, declared in self._sources.items():
            news = "read" if read.get(name) == now[name] else "has news"
            lines.append(f"  source {name}: {declared.source}, {news}")
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
        last = self._journal.last()
        lines = []
        for name, view in self._views.items():
            was = None if last is None else last.views.get(name)
            rows, changed, paces = (0, 0, {}) if was is None else (was.rows, was.changed, was.paces)
            costs = view.costs(rows, changed, paces)
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
    batches, is_whole = [], reader.acknowledged.elements == ((0,),)
    for batch in reader:
        table = batch.in_no_order(time=TIME, diff=DIFF)
        table = table.filter(pc.greater_equal(table[TIME], done)).select(schema.names).cast(schema)
        batches += [table] if table.num_rows else []
    return net(view, batches), is_whole


def _repeated(name: str) -> str:
    """Return what the output of a view's repeated keys is called."""
    return f"{name}: repeated keys"


def _contents(run: Run, name: str) -> pa.Table:
    return run.snapshot(name).in_no_order()
