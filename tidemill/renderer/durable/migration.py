"""State of one version of a dataflow made that of another: what is equal is kept, what is new loaded, what is gone not.

At the last checkpoint operators are found by what they compute. What is new is worked out from what inputs hold there;
then the steps since are repeated, by the new version. Nothing is written but one commit, of the whole state that comes
of it: before it the folder is that of the old version, after it that of the new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np

from tidemill.boundary.results import parts_of
from tidemill.dataflow.lattice import Antichain
from tidemill.dataflow.nodes import Input, Node
from tidemill.errors import StateError, StepError
from tidemill.expressions.types import dtype
from tidemill.renderer.durable.definition import Columns, InputDefinition, StateDefinition
from tidemill.renderer.durable.kept_changes import in_frame
from tidemill.renderer.durable.loading import Loading, kept_nodes, load, loading, require_loadable
from tidemill.renderer.durable.log_reading import Entry
from tidemill.renderer.durable.output_changes import OutputShapes
from tidemill.renderer.durable.spill_files import SpilledBatch, SpillFile
from tidemill.renderer.durable.spill_store import SpillStore
from tidemill.renderer.embedded.executor import EmbeddedExecutor
from tidemill.renderer.embedded.kernels.codec import encode
from tidemill.renderer.embedded.kernels.times import advance
from tidemill.renderer.embedded.kernels.updates import NULL, UpdateArray, consolidated, stacked
from tidemill.renderer.embedded.operators.input_output import OutputOperator
from tidemill.renderer.embedded.schedule import Operator
from tidemill.renderer.embedded.state import Saved, operators_of
from tidemill.renderer.embedded.trace.batch import UpdateLayout
from tidemill.renderer.embedded.trace.spine import Spine
from tidemill.renderer.embedded.trace.transaction import Transaction
from tidemill.renderer.runs.frontiers import Frontiers

_NOBODY: Final = Antichain()


@attrs.define(eq=False)
class Migration:
    """From saved state of one definition to operators that were just made, of another."""

    executor: EmbeddedExecutor
    frontiers: Frontiers
    spill_store: SpillStore
    before: StateDefinition
    now: StateDefinition
    folder: Path
    _needed: Mapping[Input, Antichain] = attrs.field(init=False, factory=dict)
    """Up to where inputs were worked in when the state was saved."""

    # -- what is to be done -------------------------------------------------------------------------------------------

    @property
    def places(self) -> dict[str, str]:
        """The places of operators that are kept: here, and where they are saved."""
        return self.now.places_in(self.before)

    def require_inputs(self) -> None:
        """Raise `StateError` where what an input held does not fit what it is now."""
        for name, one in self.now.inputs.items():
            was = self.before.inputs.get(name)
            if was is not None:
                self._require_fitting(name, was, one)

    def _require_fitting(self, name: str, was: InputDefinition, now: InputDefinition) -> None:
        else_do = "give it another name and put its rows in again, or start the flow as it was"
        node = self.executor.graph.inputs[name]
        keys = [[columns[i][0] for i in key] for columns, key in ((was.columns, was.key), (now.columns, now.key))]
        if keys[0] != keys[1]:
            was_key, key = (found or "none" for found in keys)
            msg = f"{node.where}: its key was {was_key} when the state was made, and is {key}: {else_do}"
            raise StateError(msg)
        before = {column: (kind, nullable) for column, kind, nullable in was.columns}
        for column, kind, nullable in now.columns:
            known = before.get(column)
            if known is None and not nullable:
                reason = "is new and may not be NULL, which it is in rows there are"
                msg = f"{node.where}: the column {column!r} {reason}: {else_do}"
                raise StateError(msg)
            if known is not None and (known[0] != kind or (known[1] and not nullable)):
                said = f"{known[0]}{'' if known[1] else ' not null'}"
                msg = f"{node.where}: the column {column!r} was {said} when the state was made: {else_do}"
                raise StateError(msg)

    def loading(self) -> Loading:
        """Return what is new, and from what it is loaded; `StateError` where it cannot be."""
        compiled, graph, places = self.executor.compiled, self.executor.graph, self.places
        kept = [o for o in operators_of(compiled.root) if str(o.place) in places and not self._is_compacted_further(o)]
        new = [n for n in graph.nodes if str(n.id) not in places and graph.inputs.get(n.name) is not n]
        missing = [node for name, node in graph.inputs.items() if self._is_missing(name)]
        held = {**kept_nodes(kept), **compiled.holders}
        return loading(self.executor, new, {n: o for n, o in held.items() if n not in missing}, missing)

    def _is_missing(self, name: str) -> bool:
        """Return whether an input had rows that were not kept."""
        was = self.before.inputs.get(name)
        return was is not None and was.holder is None

    def _is_compacted_further(self, operator: Operator) -> bool:
        """Return whether times are folded together in an output that are to stay distinguishable for a new one."""
        kept_since = self.executor.compiled.schedule.kept_since
        return isinstance(operator, OutputOperator) and operator.readers_since != kept_since

    # -- doing it -----------------------------------------------------------------------------------------------------

    def restore(self, saved: Saved) -> None:
        """Bring the operators to where the state was saved."""
        self.begin(saved)
        saved.fill(self.executor.compiled, self.places.get)
        names = {place: here for here, place in self.places.items()}

        def name_here(saved_name: str) -> str | None:
            place, _, name = saved_name.partition("/")
            return f"{names[place]}/{name}" if place in names else None

        self.spill_store.restore(saved.header.get("cold", {}), name_here)
        for name in self.executor.graph.inputs:
            self._fill_input(saved, name)

    def begin(self, saved: Saved) -> None:
        """Bring frontiers, and nothing else, to where they were when the state was saved."""
        header, inputs = self._header(saved.header), self.executor.graph.inputs
        self.frontiers.restore(header)
        self._needed = {inputs[n]: Antichain(map(tuple, f)) for n, f in header["needed"].items()}
        saved.place(self.executor.compiled, self.frontiers, self._needed)

    def _header(self, header: Mapping[str, Any]) -> dict[str, Any]:
        """Return where the run is, in terms of the new version."""
        inputs = self.executor.graph.inputs
        frontiers = with_new(header["frontiers"], inputs, self.frontiers.users)
        needed = with_new(header["needed"], inputs, self.frontiers.users)
        at = {inputs[n]: Antichain(map(tuple, f)) for n, f in frontiers.items()}
        were = {self.before.keys[place]: header["since"][name] for name, (place, _) in self.before.outputs.items()}
        new = header["kept_since"] or Antichain.minimum(self.frontiers.users).elements
        closed = {
            name: Antichain(map(tuple, were.get(self.now.keys[place], new)))
            for name, (place, _) in self.now.outputs.items()
        }
        since = {o.name: s.elements for o, s in self.frontiers.since_at(at, closed).items()}
        return {"keep": header["keep"], "frontiers": frontiers, "needed": needed, "since": since}

    def _fill_input(self, saved: Saved, name: str) -> None:
        """Have what an input held where it is held now, with the columns that it has now."""
        was, now = self.before.inputs.get(name), self.now.inputs[name]
        compiled, places = self.executor.compiled, self.places
        node = self.executor.graph.inputs[name]
        if was is None:
            return
        if now.place not in places:  # what is pending there has other columns
            (port,) = compiled.inputs[node].ports
            pending = saved.of_operator(was.place).get("port0")
            port.refill(None if pending is None else _fitted(pending, was.columns, now.columns))
        holder = compiled.holders.get(node)
        if holder is None or was.holder is None:
            return
        (spine,) = holder.spines().values()
        if str(holder.place) not in places:
            old_updates = self.old_updates(saved, was.holder, was.columns)
            spine.refill(consolidated(_fitted(old_updates, was.columns, now.columns)))
            holder.drop_derived()

    def old_updates(self, saved: Saved, place: str, columns: Columns) -> UpdateArray:
        """Return what a spine held of the version before, on the disk too."""
        users, store = self.frontiers.users, self.spill_store.store
        types = [dtype(name) for _, name, _ in columns]
        layout = UpdateLayout(tuple(range(len(types))), types, users, users)
        spine = Spine(layout, lambda: _NOBODY, Transaction())
        batches = saved.header.get("cold", {}).get(f"{place}/spine")
        if batches:
            found = [SpilledBatch(tuple(map(SpillFile.listed, files))) for files in batches]
            store.beneath("old", spine).spilled_batches = found
        below = spine.all_updates()
        store.spilled.pop("old", None)
        return stacked([below, saved.of_operator(place).get("spine", below[:, :0])])

    def load(self) -> Loading:
        """Load what is new, and return what was."""
        how = self.loading()
        checked = [n for n, check in self.executor.compiled.checks.items() if str(check.place) not in self.places]
        wanted = [n for n in self.executor.graph.inputs.values() if n in checked and n.name in self.before.inputs]
        for node in wanted:
            require_loadable(node, [n for n in wanted if self._is_missing(n.name)])
        if how.targets or wanted:
            extra: dict[Node, Operator] = {n: self.executor.compiled.holders[n] for n in wanted}
            how = attrs.evolve(how, worked={*how.worked, *extra}, sources={**how.sources, **extra})
            try:
                load(self.executor, how, wanted)
            except StepError as error:
                msg = f"{self.folder}: what is new cannot be loaded ({error}): the state is as it was"
                raise StateError(msg) from error
        if self.frontiers.needed != self._needed:  # of an input that is shown now more may be due
            self.executor.step(self.frontiers.needed)
            self.executor.commit(self.frontiers.since)
        return how

    def large(self, saved: Saved) -> list[Any]:
        """Return the large changes that wait at inputs that are there still."""
        found = [one for one in saved.header.get("large", ()) if one["input"] in self.now.inputs]
        for one in found:
            if one["input"] in self.before.inputs and self._columns_differ(one["input"]):
                msg = (
                    f"{self.folder}: large changes wait at {one['input']!r}, whose columns are others now: have them "
                    "taken by the flow as it was"
                )
                raise StateError(msg)
        return found

    def _columns_differ(self, name: str) -> bool:
        return self.before.inputs[name].columns != self.now.inputs[name].columns

    def _is_equal(self, before: str, now: str) -> bool:
        """Return whether operators compute the same, whichever of several that do."""
        return self.before.keys[before].partition(" ")[0] == self.now.keys[now].partition(" ")[0]

    def changes(
        self, saved: Saved | None, entries: Sequence[Entry], shapes: OutputShapes | None
    ) -> dict[str, UpdateArray | None]:
        """Return the changes of outputs that are new or others: what they hold, less what they held before.

        None where that had other columns, or is in a folder whose steps do not say what outputs changed by (``shapes``
        is None). ``entries`` are the commits from what was saved on.
        """
        found: dict[str, UpdateArray | None] = {}
        gone = {self.before.keys[p] for name, (p, _) in self.before.outputs.items() if name not in self.now.outputs}
        for name, (place, columns) in self.now.outputs.items():
            was = self.before.outputs.get(name)
            if was is not None and self._is_equal(was[0], place) and _names(was[1]) == _names(columns):
                continue
            if was is None and self.now.keys[place] in gone:  # it has another name now
                continue
            operator = self.executor.compiled.outputs[self.executor.graph.outputs[name]]
            holds = operator.spine.all_updates()
            if was is None:
                found[name] = consolidated(holds)
            elif shapes is None or _types(was[1]) != _types(columns):
                found[name] = None
            else:
                held = self._held(name, saved, entries, shapes)
                held[-1] *= -1
                both = np.concatenate((holds, held), axis=1)
                users = self.frontiers.users
                found[name] = consolidated(advance(both, len(columns), users, operator.readers_since))
        return found

    def _held(self, name: str, saved: Saved | None, entries: Sequence[Entry], shapes: OutputShapes) -> UpdateArray:
        """Return what an output of the version before held: what was saved, and what steps since changed it by."""
        schema, users, interner = shapes.schemas[name], self.frontiers.users, self.executor.compiled.interner
        width = len(schema)
        blocks = [np.empty((width + users + 1, 0), np.int64)]
        if saved is not None and entries[0].commit.step:  # else what constants came to is in the first step
            blocks.append(self.old_updates(saved, *self.before.outputs[name]))
        for entry in entries:
            for part in in_frame(entry):
                if part.output == name:
                    table, times, diffs = parts_of(shapes.updates(name, part.packed(), part.lower, part.upper))
                    block = encode(schema, table, interner, more_rows=users + 1)
                    block[width:-1], block[-1] = times, diffs
                    blocks.append(block)
        return np.concatenate(blocks, axis=1)


def with_new(frontiers: Mapping[str, Any], inputs: Mapping[str, Input], users: int) -> dict[str, Any]:
    """Return the frontiers of inputs, a new one where the others are that are open."""
    known = Antichain([tuple(t) for elements in frontiers.values() for t in elements])
    others = known if known.elements else Antichain.minimum(users)
    return {name: frontiers.get(name, others.elements) for name in inputs}


def _types(columns: Columns) -> list[tuple[str, str]]:
    return [(name, dtype) for name, dtype, _ in columns]


def _names(columns: Columns) -> list[str]:
    return [name for name, _, _ in columns]


def _fitted(updates: UpdateArray, was: Columns, now: Columns) -> UpdateArray:
    """Return updates with other columns: NULL where one is new."""
    places = {name: i for i, (name, _, _) in enumerate(was)}
    nothing = np.full(updates.shape[1], NULL)
    rows = [updates[places[name]] if name in places else nothing for name, _, _ in now]
    return np.concatenate((np.stack(rows) if rows else updates[:0], updates[len(was) :]))
