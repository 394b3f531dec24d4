"""Values that come and go, their numbers used again at once: what is read is what the reference engine gives."""

import decimal
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test
from support.agreement import SideBySide
from support.running import examples

import tidemill as tm
from tidemill.renderer.embedded.interned import InternedSweeper

KEYS = st.sampled_from("abc")
EDGE = {"a": "string", "b": "string"}


def longest(_key, group):
    return [(("|".join(sorted(value for (value,), _ in group)),), 1)]


def hop(pairs, edges):
    return pairs.join(edges, on={"b": "a"}).select("a", b="b_right")


def build():
    flow = tm.Dataflow()
    x = flow.input("x", {"k": "string", "v": "string", "d": "decimal(30,2)"})
    y = flow.input("y", {"id": "string", "k": "string", "l": "list<string>"}, key="id")
    e = flow.input("e", EDGE)
    flow.output("aggregates", x.group_by("k").agg(v=tm.max("v"), d=tm.sum("d"), l=tm.list("v")), changes=False)
    flow.output("top", x.group_by("k").top_k(2, order_by=["v desc", "d"]))
    flow.output("reduced", x.select("k", "v").distinct().group_by("k").reduce(longest, {"all": "string"}))
    flow.output("joined", x.join(y, on="k", how="left"), changes=5)
    flow.output("mapped", x.map_rows(lambda r: (r.k, f"{r.v}!"), {"k": "string", "v": "string"}).delay(2).distinct())
    flow.output("lists", y.group_by("l").agg(n=tm.count()))
    flow.output("reached", e.iterate(lambda pairs: hop(pairs, e).concat(e).distinct()))
    with flow.letrec() as rec:
        odd, even = rec.declare("odd", EDGE), rec.declare("even", EDGE)
        rec.define("odd", e.concat(hop(even, e)).distinct())
        rec.define("even", hop(odd, e).distinct())
    flow.output("odd", rec["odd"])
    w = tm.Window.partition_by("k").order_by("v", "d")
    flow.output("windows", x.with_columns(before=tm.lag("v").over(w), l=tm.list("v").over(w.rows_between(-1, 1))))
    return flow


class ShortLived(SideBySide):
    """The reference engine, the embedded one, and one that spills and is durable."""

    folder: Path
    folders: Iterator[int]

    @initialize()
    def begin(self):
        flow = build()
        state = tm.Embedded(self.folder / str(next(self.folders)), in_memory=3, checkpoint_every=3)
        self.runs = [flow.start(engine, keep=2) for engine in (tm.Reference(), tm.Embedded(), state)]
        self.count, self.rows, self.edges, self.held = itertools.count(), [], [], []

    def value(self, common):
        return common or f"v{next(self.count)}"

    @rule(k=KEYS, common=st.sampled_from(["a", "", ""]), d=st.integers(0, 10**22), later=st.sampled_from([0, 0, 2]))
    def insert(self, k, common, d, later):
        row = (k, self.value(common), decimal.Decimal(d) / 100)
        (now,) = self.runs[0].frontier("x").elements[0]
        self.together(lambda run: run.insert("x", [row], time=now + later))
        self.rows.append((row, now + later))

    @rule(data=st.data())
    def delete(self, data):
        if self.rows:
            row, time = self.rows.pop(data.draw(st.integers(0, len(self.rows) - 1)))
            (now,) = self.runs[0].frontier("x").elements[0]
            self.together(lambda run: run.delete("x", [row], time=max(now, time)))

    @rule(name=st.sampled_from(["i", "j", ""]), k=KEYS, size=st.integers(0, 3))
    def upsert(self, name, k, size):
        row = (self.value(name), k, [self.value("") for _ in range(size)])
        self.together(lambda run: run.upsert("y", [row]))

    @rule(name=st.sampled_from("ij"))
    def delete_by_key(self, name):
        self.together(lambda run: run.delete("y", [(name,)]))

    @rule(a=st.sampled_from(["a", "b", ""]), b=st.sampled_from(["a", "b", ""]))
    def connect(self, a, b):
        if len(self.edges) < 6:
            self.edges.append((self.value(a), self.value(b)))
            self.together(lambda run: run.insert("e", self.edges[-1:]))

    @rule(data=st.data())
    def part(self, data):
        if self.edges:
            edge = self.edges.pop(data.draw(st.integers(0, len(self.edges) - 1)))
            self.together(lambda run: run.delete("e", [edge]))

    @rule(more=st.integers(1, 2))
    def advance(self, more):
        (now,) = self.runs[0].frontier("x").elements[0]
        self.together(lambda run: run.advance_to(now + more))
        for name in self.runs[0].graph.outputs:
            answers = [run.snapshot(name) for run in self.runs]
            self.held = [*self.held[-30:], (answers[1], list(answers[0]))]
        for rows, expected in self.held:  # some of them handed out many steps ago
            assert list(rows) == expected

    @rule()
    def read(self):
        for name in ("top", "reduced", "mapped", "reached", "odd", "lists", "windows"):
            self.together(lambda run, name=name: list(run.changes(name)))

    def teardown(self):
        if hasattr(self, "runs"):
            self.read()
        super().teardown()


@pytest.mark.parametrize(
    "sweep", [InternedSweeper.sweep, lambda s: s._release(s._unused())], ids=["merged", "as it is"]
)
@pytest.mark.slow
def test_numbers_used_again_at_once(monkeypatch, tmp_path, sweep):
    monkeypatch.setattr(InternedSweeper, "sweep_if_due", sweep)
    machine = type("machine", (ShortLived,), {"folder": tmp_path, "folders": itertools.count()})
    run_state_machine_as_test(machine, settings=examples(60, least=15))
