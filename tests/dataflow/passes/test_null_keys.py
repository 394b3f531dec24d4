"""Rows whose keys are NULL: arrangements that joins alone look up in do not hold them, and outer joins still give them."""

import pytest
from support.running import KV, new_flow, start

from tidemill.dataflow.nodes import Arrange


@pytest.mark.parametrize(
    ("how", "held"), [("inner", 2), ("left", 3), ("right", 3), ("full", 4), ("semi", 2), ("anti", 2)]
)
def test_what_can_match_nothing_is_not_held(how, held):
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("out", a.join(b, on="k", how=how))
    rows = {name: [(None, i) for i in range(1, 100)] + [(1, 0)] for name in "ab"}
    found = []
    for engine, passes in (("embedded", True), ("embedded", False), ("reference", True)):
        with start(flow, engine, passes=passes) as run:
            for name, some in rows.items():
                run.insert(name, some)
            run.advance()
            found.append(run.snapshot("out").counts())
            if engine == "embedded" and passes:
                ids = {n.id for n in run.graph.nodes if isinstance(n, Arrange)}
                assert sum(o.state_rows for o in run.metrics() if o.id in ids) == held
    assert found[0] == found[1] == found[2]


def test_a_key_of_several_columns_may_have_none():
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("out", a.join(b, on=["k", "v"]))
    flow.output("all", a.join(b, on="v", nulls_equal=True))
    with flow.start() as run:
        run.insert("a", [(None, 1), (1, None), (None, None), (1, 1)])
        run.insert("b", [(None, 1), (1, None), (1, 1)])
        run.advance()
        assert run.snapshot("out").counts() == {(1, 1): 1}
        assert sum(run.snapshot("all").counts().values()) == 2 * 2 + 2
        run.delete("a", [(None, 1), (1, 1)])
        run.advance()
        assert run.snapshot("out").counts() == {}
