"""Inputs with a key: random writes to runs side by side, of which one keeps nothing in memory and is begun anew."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from support.agreement import SideBySide
from support.running import embedded, examples, start

import tidemill as tm
from tidemill.errors import RowError, TimeError
from tidemill.renderer.durable import spill_files as coldfiles
from tidemill.renderer.embedded.operators import upsert_input as keyedinput

ONE = {"k": "int64", "v": "int64"}
TWO = {"x": "float64", "v": "int64", "s": "string"}
NAN = float("nan")
ROWS = {
    "one": st.tuples(st.integers(0, 3), st.sampled_from([*[1, 2] * 8, None, 0])),
    "two": st.tuples(
        st.sampled_from([0.0, -0.0, 1.5, NAN]), st.sampled_from([0, 1, None]), st.sampled_from(["", "a", "é"])
    ),
}
KEYS = {"one": (0,), "two": (2, 0)}
SCHEMAS = {"one": ONE, "two": TWO}
NAMES = st.sampled_from(["one", "one", "two"])


def build():
    flow = tm.Dataflow("keyed")
    one = flow.input("one", ONE, key="k", unique=True)
    two = flow.input("two", TWO, key=["s", "x"])
    plain = flow.input("plain", ONE)
    flow.output("rows", one)
    flow.output("sums", two.group_by("s").agg(n=tm.count(), v=tm.sum("v"), x=tm.max("x")))
    flow.output("pairs", two.join(one.concat(plain), on="v"))
    flow.output("risky", one.select("k", q="4 DIV v"))
    return flow


class Writing(SideBySide):
    """Every rule does the same to each run."""

    folder: Callable[[], Path]
    seen = staticmethod(repr)

    @initialize(keep=st.sampled_from([0, 2]), closes=st.sampled_from([False, False, False, True]))
    def begin(self, keep, closes):
        self.closes = closes
        self.flow, self.keep = build(), keep
        self.state = tm.Embedded(self.folder(), in_memory=0, checkpoint_every=4)
        self.runs = [start(self.flow, engine, keep=keep) for engine in ("reference", "embedded", self.state)]
        self.committed = True

    def write(self, do):
        """Put something in, where the input is open."""
        self.committed = False
        found = self.together(do)
        assert found is None or found[0] is TimeError

    def time(self, name, later):
        found = self.runs[0].frontier(name).elements
        return found[0][0] + later if found else 0

    @rule(data=st.data(), name=NAMES, later=st.sampled_from([0, 0, 1, 3]), table=st.booleans())
    def upsert(self, data, name, later, table):
        rows = data.draw(st.lists(ROWS[name], max_size=6))
        given = as_table(SCHEMAS[name], rows) if table else rows
        self.write(lambda run: run.upsert(name, given, time=self.time(name, later)))

    @rule(data=st.data(), name=NAMES, later=st.sampled_from([0, 0, 1, 3]), whole=st.booleans(), table=st.booleans())
    def delete(self, data, name, later, whole, table):
        rows, schema = data.draw(st.lists(ROWS[name], max_size=4)), SCHEMAS[name]
        if not whole:
            names = [list(schema)[i] for i in KEYS[name]]
            rows, schema = [tuple(row[i] for i in KEYS[name]) for row in rows], {n: schema[n] for n in names}
        given = as_table(schema, rows) if table else rows
        self.write(lambda run: run.delete(name, given, time=self.time(name, later)))

    @rule(data=st.data(), name=NAMES, timed=st.booleans())
    def apply(self, data, name, timed):
        lines = data.draw(st.lists(st.tuples(ROWS[name], st.sampled_from("iiiudddt"), st.integers(0, 3)), max_size=20))
        lines = [((None,) * len(row) if op == "t" else row, op, later) for row, op, later in lines]
        if timed:
            feed = [(*row, op, self.time(name, later)) for row, op, later in lines]
            self.write(lambda run: run.apply(name, feed, time="at"))
        else:
            self.write(lambda run: run.apply(name, [(*row, op) for row, op, _ in lines]))

    @rule(rows=st.lists(ROWS["one"], max_size=3))
    def insert_without_key(self, rows):
        self.write(lambda run: run.insert("plain", rows, time=self.time("plain", 0)))

    @rule(name=NAMES)
    def refuse(self, name):
        bad = {"one": [(3, 3), (None, 1)], "two": [(1.5, 3, "a"), (0.0, 1, None)]}[name]
        for rows in (bad, as_table(SCHEMAS[name], bad)):
            found = self.together(lambda run, rows=rows: run.upsert(name, rows, time=self.time(name, 0)))
            assert found[0] in (RowError, TimeError)

    @rule(name=st.sampled_from([*[None] * 5, "one", "two", "plain"]), more=st.integers(1, 3), gives_up=st.booleans())
    def advance(self, name, more, gives_up):
        low = min(self.time(n, 0) for n in ("one", "two", "plain") if n == name or name is None)
        failed = self.together(lambda run: run.advance_to(low + more, input=name))
        self.committed = failed is None
        if failed and gives_up:
            self.discard()
        self.agree()

    @precondition(lambda self: self.closes)
    @rule(name=st.sampled_from(["one", "two"]))
    def close_one(self, name):
        if self.together(lambda run: run.close_input(name)) is None:
            self.committed = True
        self.agree()

    def discard(self):
        self.committed = False
        self.together(lambda run: run.discard())

    @rule()
    def compact(self):
        self.runs[1].compact()
        self.runs[2].compact()

    @rule(data=st.data())
    def deliver_what_fails(self, data):
        """What was put in before stays, and what fails leaves nothing."""
        rows = data.draw(st.lists(ROWS["one"], max_size=3))

        def put(run):
            run.upsert("one", rows, time=self.time("one", 0))
            run.delete("one", [(1,)], time=self.time("one", 2))
            raise InterruptedError

        if self.runs[2].frontier("one").elements:
            with pytest.raises(InterruptedError):
                self.runs[2].deliver("source", 1, put)

    @rule()
    def begin_anew(self):
        if self.committed:
            self.runs[2].close()
            self.runs[2] = start(self.flow, self.state, keep=self.keep)
            self.agree(changes=False)

    @rule()
    def save_and_load(self):
        path = Path(str(self.state.state)) / "saved"
        self.runs[1].save(path)
        self.runs[1].close()
        self.runs[1] = tm.load(path, self.flow)

    def agree(self, *, changes=True):
        for name in self.runs[0].graph.outputs:
            self.together(lambda run, name=name: run.frontier(name))
            self.together(lambda run, name=name: sorted(map(repr, run.snapshot(name).counts().items())))
            found = [sorted(map(repr, run.changes(name))) for run in self.runs]
            assert not changes or found[0] == found[1] == found[2]


def as_table(schema, rows):
    flow = tm.Dataflow()
    fields = flow.input("x", schema).schema.fields
    columns = zip(*rows, strict=True) if rows else [[] for _ in fields]
    return pa.table({f.name: pa.array(c, f.dtype.arrow) for f, c in zip(fields, columns, strict=True)})


@pytest.mark.slow
@pytest.mark.parametrize("few", [0, 16])
def test_engines_agree_after_every_write(tmp_path_factory, monkeypatch, few):
    monkeypatch.setattr(keyedinput, "FEW", few)
    monkeypatch.setattr(keyedinput, "_FEW_FOUND", few)
    monkeypatch.setattr(coldfiles, "PAGE", 2)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # nobody pulls the plug
    machine: Any = type("Writing", (Writing,), {"folder": lambda self: tmp_path_factory.mktemp("state")})
    machine.TestCase.settings = settings(examples(30), stateful_step_count=30)
    machine.TestCase("runTest").runTest()


EPOCHS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 1), st.sampled_from([None, 1, 2]), st.integers(0, 2)), max_size=5),
        st.integers(1, 3),
    ),
    max_size=6,
)


@pytest.mark.slow
@pytest.mark.parametrize("few", [0, 16])
@pytest.mark.parametrize("found", [0, 64])
def test_few_keys_written_often(monkeypatch, few, found):
    """The same rows come, go and come again, at times that close one by one and together."""
    monkeypatch.setattr(keyedinput, "FEW", few)
    monkeypatch.setattr(keyedinput, "_FEW_FOUND", found)
    flow = tm.Dataflow()
    flow.output("o", flow.input("x", ONE, key="k"))

    @examples(100)
    @given(EPOCHS)
    def check(epochs):
        seen = []
        for engine in ("reference", "embedded"):
            with start(flow, engine) as run:
                now, changes = 0, []
                for writes, more in epochs:
                    for key, value, later in writes:
                        rows = [(key,)] if value is None else [(key, value)]
                        (run.delete if value is None else run.upsert)("x", rows, time=now + later)
                    now += more
                    run.advance_to(now)
                    changes.append(sorted(run.changes("o"), key=repr))
                seen.append(changes)
        assert seen[0] == seen[1]

    check()


def test_a_hundred_thousand_rows_are_not_a_dict_of_tuples():
    """Five numbers, and the key once more to find it by."""
    flow = tm.Dataflow()
    flow.output("n", flow.input("x", ONE, key="k").agg(n=tm.count()), changes=False)
    count = 100_000
    with flow.start() as run:
        run.upsert("x", pa.table({"k": np.arange(count), "v": np.arange(count)}))
        run.advance()
        run.upsert("x", [(7, 8)])
        run.delete("x", [(9,)])
        run.advance()
        run.compact()
        assert list(run.snapshot("n")) == [(count - 1,)]
        operator: Any = next(iter(embedded(run).compiled.inputs.values()))
        assert operator.rows.size == run.metrics()[0].state_rows == count - 1
        assert sum(batch.hashes.nbytes + batch.array.nbytes for batch in operator.rows.view.batches) <= 5 * 8 * count
