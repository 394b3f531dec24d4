"""State kept in order through whatever happens to runs: random changes, refused steps, restarts, saves, spills."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.random_windows import TXY, W
from support.running import examples

import tidemill as tm

DOWN = tm.Window.partition_by("k").order_by(tm.desc("t"))
AROUND = {
    "before": tm.lag("x").over(W),
    "near": tm.sum("x").over(W.rows_between(-2, 1)),
    "non-null": tm.lead("x", 2, ignore_nulls=True).over(W),
    "most": tm.max("x").over(W.range_between(-2, 2).exclude("ties")),
}
SO_FAR = {
    "total": tm.sum("x").over(W),
    "third": tm.nth_value("x", 3).over(W),
    "first": tm.first_value("x", ignore_nulls=True).over(W.rows_between(tm.UNBOUNDED, -1)),
    "place": tm.rank().over(W),
}
MANY = {
    "near": tm.sum("x").over(W.rows_between(-2, 1)),
    "most": tm.max("x").over(W.groups_between(-1, 1).exclude("ties")),
    "about": tm.count().over(W.range_between(-1, 2)),
    "place": tm.dense_rank().over(W),
    "number": tm.row_number().over(W),
}
FROM_HERE = {"spread": tm.stddev("x").over(DOWN.rows_between(1, tm.UNBOUNDED)), "share": tm.ntile("n").over(DOWN)}
KINDS = {
    "so_far": tm.count("x").over(W.rows_between(tm.UNBOUNDED, 0), distinct=True),
    "from_here": tm.sum("x").over(W.rows_between(1, tm.UNBOUNDED), distinct=True),
}
OUTPUTS = {"around": AROUND, "many": MANY, "so_far": SO_FAR, "from_here": FROM_HERE, "kinds": KINDS}
ROWS = st.tuples(st.sampled_from([0, 0, 0, 1]), st.integers(0, 9), st.none() | st.integers(-5, 5), st.just(3))
REFUSED = (0, 4, 1, 0)
"""A row that `ntile` has no value for."""


def made():
    flow = tm.Dataflow("ordered")
    rows = flow.input("x", {**TXY, "n": "int32"})
    for name, calls in OUTPUTS.items():
        flow.output(name, rows.with_columns(**calls))
    return flow


class OrderedState(RuleBasedStateMachine):
    """The reference engine, a run in memory that is saved and loaded, and one that is durable and spills."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.flow = made()
        self.engine = tm.Embedded(self.folder / "durable", checkpoint_every=3, in_memory=0)
        self.reference = self.flow.start(tm.Reference())
        self.memory = self.flow.start()
        self.durable = self.flow.start(self.engine)
        self.rows = []
        self.saved = 0

    @property
    def runs(self):
        return self.reference, self.memory, self.durable

    def teardown(self):
        for run in self.runs:
            run.close()
        shutil.rmtree(self.folder)

    @initialize(rows=st.lists(ROWS, min_size=12, max_size=40))
    def load(self, rows):
        self.step(rows, [])

    def step(self, come, go):
        for run in self.runs:
            run.insert("x", come)
            run.delete("x", go)
            run.advance()
        self.rows += come
        for row in go:
            self.rows.remove(row)

    @rule(come=st.lists(ROWS, max_size=3), data=st.data())
    def change(self, come, data):
        go = data.draw(st.lists(st.sampled_from(range(len(self.rows))), max_size=3, unique=True)) if self.rows else []
        self.step(come, [self.rows[place] for place in go])

    @rule(come=st.lists(ROWS, max_size=2), durable=st.booleans())
    def refused(self, come, durable):
        run = self.durable if durable else self.memory
        run.insert("x", [*come, REFUSED])
        with pytest.raises(tm.errors.ExpressionError, match="at least 1"):
            run.advance()
        run.discard()

    @rule()
    def restart(self):
        self.durable.close()
        self.durable = self.flow.start(self.engine)

    @rule()
    def save_and_load(self):
        self.saved += 1
        path = self.folder / f"saved {self.saved}"
        self.memory.save(path)
        self.memory.close()
        self.memory = tm.load(path, self.flow)

    @rule()
    def spill(self):
        self.durable.spill()

    @rule()
    def compact(self):
        for run in self.runs[1:]:
            run.compact()

    @invariant()
    def runs_agree(self):
        for output in OUTPUTS:
            expected, *found = (run.snapshot(output).counts() for run in self.runs)
            assert found == [expected, expected]


@pytest.mark.slow
@pytest.mark.usefixtures("small_is_large")
def test_state_in_order_through_whatever_happens(in_order):
    OrderedState.TestCase.settings = settings(examples(20), stateful_step_count=20)
    OrderedState.TestCase("runTest").runTest()
    assert len(in_order) > 10


@pytest.mark.slow
@pytest.mark.usefixtures("few_are_many")
def test_state_through_whatever_happens_where_few_changes_are_many(at_once):
    OrderedState.TestCase.settings = settings(examples(20), stateful_step_count=20)
    OrderedState.TestCase("runTest").runTest()
    assert at_once
