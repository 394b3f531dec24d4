"""Random actions on the engines together: after each closed time they agree on everything that can be asked."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.running import KV, new_flow, start

import tidemill as tm
from tidemill.dataflow.lattice import Antichain, shown
from tidemill.errors import RowError, StepError, TidemillError

VALUES = st.sampled_from([0, 1, 2, None])
ROWS = st.tuples(VALUES, VALUES)


def hop(a, b):
    return a.join(b, on={"v": "k"}).select("k", v="v_right")


def build(coordinates):
    flow = new_flow(coordinates)
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("counts", a.concat(b.negate()).group_by("k").agg(n=tm.count(), s=tm.sum("v")))
    flow.output("reach", a.distinct().iterate(lambda here: hop(here, b).concat(a).distinct(), error_at=40))
    flow.output("outer", a.join(b, on="k", how="full"))
    flow.output("least", a.distinct().concat(b.distinct()).group_by("k").agg(v=tm.min("v")))
    flow.output("late", a.delay(1 if coordinates == 1 else (1, 0)).distinct().antijoin(b, on="k"))
    flow.output("total", b.agg(n=tm.count(), x=tm.avg("v")))
    flow.output("risky", a.filter("k = 2").select(q="2 DIV v"))
    return flow


class SideBySide(RuleBasedStateMachine):
    """Runs of several engines, of which every rule asks the same."""

    runs: list[Any]
    seen: Any = staticmethod(lambda answer: answer)
    """As what answers are compared."""

    def teardown(self):
        for run in getattr(self, "runs", []):
            run.close()

    def together(self, ask):
        """What all answer; errors are answers too."""
        answers = []
        for run in self.runs:
            try:
                answers.append(ask(run))
            except TidemillError as error:
                answers.append((type(error), str(error) if not isinstance(error, StepError) else ""))
        assert all(self.seen(answer) == self.seen(answers[0]) for answer in answers[1:]), answers
        return answers[0]


class Agreement(SideBySide):
    """The engines side by side; every rule does the same to each."""

    coordinates = 1
    engines: list[str]

    @initialize(keep=st.sampled_from([0, 0, 2]))
    def begin(self, keep):
        flow = build(self.coordinates)
        self.runs = [start(flow, engine, keep=keep) for engine in self.engines]
        self.keep = keep

    def times(self, name):
        """Some times that are open at an input, and some a little later."""
        found = self.runs[0].frontier(name).elements
        return [shown(tuple(c + d for c, d in zip(f, more, strict=True))) for f in found for more in self.steps()]

    def steps(self):
        return [(i,) for i in range(3)] if self.coordinates == 1 else [(0, 0), (1, 0), (0, 1), (1, 2)]

    @rule(
        data=st.data(),
        name=st.sampled_from("ab"),
        rows=st.lists(st.tuples(ROWS, st.sampled_from([1, 1, 2, -1])), max_size=4),
    )
    def update(self, data, name, rows):
        times = self.times(name)
        if times:
            triples = [(row, data.draw(st.sampled_from(times)), diff) for row, diff in rows]
            self.together(lambda run: run.update(name, triples))

    @rule(name=st.sampled_from("ab"), rows=st.lists(ROWS, max_size=3), delete=st.booleans())
    def insert_or_delete(self, name, rows, delete):
        self.together(lambda run: (run.delete if delete else run.insert)(name, rows))

    @rule(name=st.sampled_from("ab"), row=ROWS, bad=st.sampled_from([(1,), (1, "x"), 7, (1, 2, 3)]))
    def refuse(self, name, row, bad):
        kinds = self.together(
            lambda run: run.insert(name, [row, bad], time=self.times(name)[0] if self.times(name) else 0)
        )
        assert kinds[0] in (RowError, tm.errors.TimeError)

    @rule(data=st.data(), name=st.sampled_from([None, None, "a", "b"]), more=st.integers(1, 2))
    def advance(self, data, name, more):
        fronts = [f for n in ("ab" if name is None else name) for f in self.runs[0].frontier(n).elements]
        if not fronts:
            return
        low = data.draw(st.sampled_from(fronts))
        if self.coordinates == 1:
            to = low[0] + more
        else:
            after = Antichain([(low[0] + more, low[1]), (low[0], low[1] + 1)])
            to = data.draw(st.sampled_from([after, (low[0] + 1, low[1] + more), (low[0], low[1] + more)]))
        self.together(lambda run: run.advance_to(to, input=name))
        self.agree()

    @rule(name=st.sampled_from("ab"))
    def close_one(self, name):
        self.together(lambda run: run.close_input(name))
        self.agree()

    @rule()
    def discard(self):
        self.together(lambda run: run.discard())

    @rule(
        name=st.sampled_from(["counts", "reach", "outer", "least", "late", "total", "risky"]), since=st.integers(0, 4)
    )
    def look_back(self, name, since):
        at = since if self.coordinates == 1 else (since, since)
        self.together(lambda run: run.snapshot(name, at=at).counts())
        self.together(lambda run: list(run.changes(name, since=at)))

    @rule(name=st.sampled_from(["counts", "reach", "outer"]))
    def read(self, name):
        def changes(run):
            found = run.changes(name)
            return list(found), found.lower, found.upper

        self.together(changes)

    def agree(self):
        for name in self.runs[0].graph.outputs:
            self.together(lambda run, name=name: run.frontier(name))
            if self.coordinates == 1:
                self.together(lambda run, name=name: run.snapshot(name).counts())
            for element in self.runs[0].frontier(name).elements:
                before = tuple(max(c - 1, 0) for c in element)
                self.together(lambda run, name=name, at=before: run.snapshot(name, at=at).counts())

    @invariant()
    def frontiers_agree(self):
        if hasattr(self, "runs"):
            self.together(lambda run: [run.frontier(name) for name in "ab"])


class Agreement2D(Agreement):
    coordinates = 2


def agree(machine, engines, **how):
    """Run a machine with these engines."""
    found: Any = type(machine.__name__, (machine,), {"engines": engines})
    found.TestCase.settings = settings(**how)
    found.TestCase("runTest").runTest()
