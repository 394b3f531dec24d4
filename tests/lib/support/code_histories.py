"""Histories of code: versions of a dataflow on one folder of state, with updates and restarts between them.

A version is a list of genes, each of which makes an operator as `tidemill.testing` grows them at random, and of outputs.
A gene remembers what was drawn for it, so the next version has the same operators but for what was added, removed,
changed or put elsewhere. After each start a run on the folder has to be what a fresh one is that is fed all rows.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any, cast

import attrs
from hypothesis import strategies as st

import tidemill as tm
from tidemill.errors import StateError, StepError
from tidemill.testing.random_flows import Growth

NAMES = ("x", "y", "z", "w")


class Gene:
    """What was drawn for an operator."""

    def __init__(self) -> None:
        self.tape: list[tuple[str, Any]] = []


class Grown(Growth):
    """A dataflow grown from genes."""

    def __init__(self, draw, coordinates, genes, outputs):
        super().__init__(cast("Any", lambda _: True), coordinates, loops=True)
        self._fresh, self._tape, self._at = draw, [], 0
        self.draw = cast("Any", self._remembered)
        for gene in genes:
            self._tape, self._at = gene.tape, 0
            self.grow()
            del gene.tape[self._at :]
        for name, place in outputs:
            plant = self._pool[-1 - place % len(self._pool)]
            self.flow.output(name, plant.rows)
        self.flow.graph.freeze()

    def pick(self, options):
        return options[self._remembered(st.integers(0, 9999)) % len(options)]

    def _remembered(self, strategy):
        asked = repr(strategy)
        if self._at < len(self._tape) and self._tape[self._at][0] != asked:
            del self._tape[self._at :]  # what is around it has changed
        if self._at == len(self._tape):
            self._tape.append((asked, self._fresh(strategy)))
        self._at += 1
        return self._tape[self._at - 1][1]


@attrs.frozen
class Version:
    """A dataflow, and how it differs from the one before, for those who read a failure."""

    flow: tm.Dataflow
    said: str


@st.composite
def versions(draw, coordinates=1, count=3):
    """Return a strategy for dataflows each of which comes from the one before."""
    genes = [Gene() for _ in range(draw(st.integers(1, 4)))]
    outputs = [(name, draw(st.integers(0, 3))) for name in NAMES[: draw(st.integers(1, 3))]]
    found = [Version(Grown(draw, coordinates, genes, outputs).flow, "first")]
    for _ in range(count - 1):
        said = []
        for _ in range(draw(st.integers(1, 2))):
            said.append(draw(st.sampled_from(sorted(_MUTATIONS))))
            genes, outputs = _MUTATIONS[said[-1]](draw, list(genes), list(outputs))
        found.append(Version(Grown(draw, coordinates, genes, outputs).flow, ", ".join(said)))
    return found


def _add(draw, genes, outputs):
    del draw
    return [*genes, Gene()], outputs


def _remove(draw, genes, outputs):
    if len(genes) > 1:
        del genes[draw(st.integers(0, len(genes) - 1))]
    return genes, outputs


def _change(draw, genes, outputs):
    genes[draw(st.integers(0, len(genes) - 1))] = Gene()
    return genes, outputs


def _reorder(draw, genes, outputs):
    return draw(st.permutations(genes)), draw(st.permutations(outputs))


def _rename(draw, genes, outputs):
    free = [name for name in NAMES if name not in dict(outputs)]
    if free:
        at = draw(st.integers(0, len(outputs) - 1))
        outputs[at] = (free[0], outputs[at][1])
    return genes, outputs


def _add_output(draw, genes, outputs):
    free = [name for name in NAMES if name not in dict(outputs)]
    return genes, [*outputs, (free[0], draw(st.integers(0, 4)))] if free else outputs


def _remove_output(draw, genes, outputs):
    if len(outputs) > 1:
        del outputs[draw(st.integers(0, len(outputs) - 1))]
    return genes, outputs


_MUTATIONS = {
    "add": _add, "remove": _remove, "change": _change, "reorder": _reorder, "rename": _rename,
    "add output": _add_output, "remove output": _remove_output,
}  # fmt: skip


class History:
    """A folder that versions are started on, one after the other, and all that was put in."""

    def __init__(self, folder, rng: random.Random, coordinates: int, keep: int, in_memory: int) -> None:
        self.folder, self.rng, self.coordinates, self.keep, self.in_memory = folder, rng, coordinates, keep, in_memory
        self.fed: dict[str, list[Any]] = {}
        """What inputs were given that were there ever since."""
        self.frontiers: dict[str, Any] = {}
        self.contents: dict[str, Counter[Any]] | None = None
        """What outputs held when the last version was closed; None where a restart need not know it."""
        self.migrations = 0
        self.refused = 0

    def start(self, flow):
        return flow.start(tm.Embedded(self.folder, in_memory=self.in_memory, checkpoint_every=4), keep=self.keep)

    def take(self, version: Version, before: Version | None) -> Version:
        """Start a version, compare it, go on with it for some steps; return the version that the folder holds then."""
        try:
            run = self.start(version.flow)
        except StateError as error:
            if isinstance(error.__cause__, StepError):
                self._require_failing(version.flow)
                raise error.__cause__ from None
            if before is None or "gives rows by when others came" not in str(error):
                raise
            self.refused += 1
            version, run = before, self.start(before.flow)
        self.migrations += before is not None and version is not before
        with run:
            inputs = list(version.flow.graph.inputs)
            self.fed = {name: self.fed.get(name, []) for name in inputs}
            with version.flow.start(keep=self.keep) as fresh:
                for name, updates in self.fed.items():
                    fresh.update(name, updates)
                self._follow(fresh, run)
                self._compare_loads(run, version.flow, fresh)
                for output in version.flow.graph.outputs:
                    fresh.changes(output)
                for _ in range(self.rng.randrange(1, 4)):
                    self._step(run, fresh)
                    self._compare(run, fresh)
                    self._compare_changes(run, fresh)
                known = self.rng.random() < 0.6
                if known:
                    run.checkpoint()
                self.contents = {n: _counts(run, n, self) for n in version.flow.graph.outputs}
        return version

    def _require_failing(self, flow):
        with flow.start(keep=self.keep) as fresh:
            for name, updates in self.fed.items():
                if name in flow.graph.inputs:
                    fresh.update(name, updates)
            try:
                fresh.close_inputs()
            except StepError:
                return
        raise AssertionError

    def _follow(self, fresh, run):
        for name in fresh.graph.inputs:
            if fresh.frontier(name) != run.frontier(name):
                fresh.advance_to(run.frontier(name), input=name)
        self._compare(run, fresh)

    def _step(self, run, fresh):
        for name, node in run.graph.inputs.items():
            base = run.frontier(name).elements
            if not base:
                continue
            updates = []
            for _ in range(self.rng.randrange(0, 5)):
                there = [u for u in self.fed[name] if u[2] > 0]
                time = tuple(c + self.rng.randrange(3) for c in self.rng.choice(base))
                if there and self.rng.random() < 0.4:
                    row, was, diff = self.rng.choice(there)
                    if (row, was, -diff) not in self.fed[name] + updates:
                        gone = tuple(map(max, was, time)) if isinstance(was, tuple) else max(was, time[0])
                        if any(u[0] == row and u[2] < 0 for u in self.fed[name] + updates):
                            continue
                        updates.append((row, gone, -diff))
                        continue
                row = tuple(self.rng.choice(_values(f.dtype)) for f in node.schema)
                updates.append((row, time if self.coordinates > 1 else time[0], 1))
            self.fed[name] += updates
            for one in (run, fresh):
                one.update(name, updates)
        names = list(run.graph.inputs)
        if self.rng.random() < 0.3:  # one is ahead of the others
            name = self.rng.choice(names)
            to = _after(run.frontier(name), self.rng)
            for one in (run, fresh):
                one.advance_to(to, input=name)
        else:
            to = _after(tm.Antichain([t for n in names for t in run.frontier(n).elements]), self.rng)
            ahead = to
            for n in names:
                ahead = ahead.join(run.frontier(n))
            for one in (run, fresh):
                one.advance_to(ahead)

    def _compare(self, run, fresh):
        for output in run.graph.outputs:
            assert run.frontier(output) == fresh.frontier(output)
            for at in self._times(run, output):
                assert _at(run, output, at) == _at(fresh, output, at), (output, at)

    def _times(self, run, output):
        """Return complete times of an output that are told apart."""
        found = []
        for t in run.frontier(output).elements:
            if min(t) > 0:
                found += [tuple(c - 1 - back for c in t) for back in range(self.keep + 1) if min(t) > back]
        return found

    def _compare_loads(self, run, flow, fresh):
        """Read the changes that a start brought: nothing, what an output holds, or by how much that differs."""
        for output in flow.graph.outputs:
            change = Counter()
            for row, _, diff in run.changes(output):
                change[row] += diff
            change = Counter({row: n for row, n in change.items() if n})
            now = _counts(run, output, self)
            was = (self.contents or {}).get(output)
            if now is None:
                continue
            options = [Counter(), now] if was is None or self.contents is None else [_less(now, was), now]
            assert change in options, (output, change, now, was)

    def _compare_changes(self, run, fresh):
        for output in run.graph.outputs:
            ours, theirs = run.changes(output), fresh.changes(output)
            assert sorted(ours, key=repr) == sorted(theirs, key=repr), output


def _after(frontier, rng):
    elements = list(frontier.elements)
    moved = [tuple(c + rng.randrange(1, 3) for c in t) for t in elements[:1]]
    return tm.Antichain(moved)


def _at(run, output, at):
    return Counter(run.snapshot(output, at=at if len(at) > 1 else at[0]).counts())


def _counts(run, output, history):
    times = history._times(run, output)
    return _at(run, output, times[0]) if history.coordinates == 1 and times else None


def _less(now, was):
    found = Counter(now)
    found.subtract(was)
    return Counter({row: n for row, n in found.items() if n})


def _values(dtype):
    from tidemill.testing.strategies import _known

    return [*_known(dtype), None] if str(dtype) != "int64" else [0, 1, 2, 3, None]


__all__ = ["History", "Version", "versions", "StepError", "defaultdict"]
