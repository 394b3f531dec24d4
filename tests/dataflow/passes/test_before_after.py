"""What each pass makes of small dataflows, as text: see ``before_after/*.txt``, one file a pass.

The files are written anew where TIDEMILL_WRITE is set: look at what changed before you keep it.
"""

import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import KV, examples, new_flow

import tidemill as tm
from tidemill.dataflow.passes.pipeline import PASSES, optimised
from tidemill.testing import all_at_once, check_equivalent, shuffled, time_by_time, updates

sys.path.insert(0, str(Path(__file__).parent))
from flows import FLOWS

FOLDER = Path(__file__).parent / "before_after"
CASES = [(name, what) for name, flows in FLOWS.items() for what in flows]


def built(name, what, coordinates=1):
    flow = new_flow(coordinates)
    a, b = (flow.input(n, KV) for n in "ab")
    flow.output("out", FLOWS[name][what](a, b))
    return flow


def without_sites(text):
    return re.sub(r"  \[[^][]*:\d+\]$", "", text, flags=re.MULTILINE)


def test_every_pass_has_its_flows():
    assert set(FLOWS) == {p.__name__ for p in PASSES} | {"lower"}


def asked_for(name):
    """The passes that have only this one done: lowering is always done."""
    return [] if name == "lower" else [name]


@pytest.mark.parametrize("name", FLOWS)
def test_texts(name):
    found = ""
    for what in FLOWS[name]:
        shown = built(name, what).explain(passes=asked_for(name))
        before, after = shown.split("\nlowered:\n" if name == "lower" else f"\nafter {name}:\n")
        text = "\n".join(["before", *before.splitlines()[1:], "after", *after.splitlines()[1:]])
        found += f"-- {what}\n{without_sites(text)}\n\n"
    file = FOLDER / f"{name}.txt"
    if "TIDEMILL_WRITE" in os.environ:
        file.write_text(found)
    assert found == file.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "what"), CASES)
@examples(5)
@given(data=st.data())
def test_the_same_comes_out(name, what, data):
    coordinates = data.draw(st.sampled_from([1, 2])) if "that is linear" not in what else 1
    found = {n: data.draw(updates(KV, coordinates), label=n) for n in "ab"}
    for passes in (asked_for(name), True):
        batchings = [all_at_once, time_by_time, shuffled(1)]
        check_equivalent(built(name, what, coordinates), found, batchings=batchings, passes=passes)


@pytest.mark.parametrize(("name", "what"), CASES)
def test_the_graph_as_built_stays_as_it_is(name, what):
    flow = built(name, what)
    before = flow.explain()
    flow.start().close()
    assert flow.explain() == before
    after = optimised(flow.graph)
    assert [n.schema for n in after.outputs.values()] == [n.schema for n in flow.graph.outputs.values()]
    assert after.frozen


def test_an_error_names_the_line_it_was_written_on():
    flow = new_flow()
    a = flow.input("a", KV).select(x="k", y="v")
    a = a.select(x="x", y="10 DIV y")
    flow.output("out", a.select(z="y").filter("z > 0"))
    said = []
    for passes in (False, True):
        with flow.start(passes=passes) as run, pytest.raises(tm.errors.ExpressionError) as caught:
            run.insert("a", [(1, 0)])
            run.advance()
        said += re.findall(r"test_before_after.py:\d+", str(caught.value))[:1]
    assert said[0] == said[1]


def test_inputs_stay_and_stay_checked():
    flow = new_flow()
    a, b = flow.input("a", KV, unique=True), flow.input("b", KV)
    flow.output("out", b.select("k"))
    a.distinct()
    with flow.start() as run:
        assert list(run.graph.inputs) == ["a", "b"]
        run.insert("a", [(1, 1), (1, 1)])
        with pytest.raises(tm.errors.NegativeCountError):
            run.advance()


def test_a_saved_state_is_loaded_with_the_same_passes(tmp_path):
    flow = built("prune_columns", "of all who look up")
    for passes in (True, False, ["fuse_linear"]):
        with flow.start(passes=passes) as run:
            run.insert("a", [(1, 1), (1, 2)])
            run.insert("b", [(1, 5)])
            run.advance()
            run.save(tmp_path / "state")
            expected = run.snapshot("out").counts()
        with tm.load(tmp_path / "state", flow, passes=passes) as run:
            assert run.snapshot("out").counts() == expected
            run.delete("a", [(1, 2)])
            run.advance()
            assert run.snapshot("out").counts() != expected
    with pytest.raises(tm.errors.StateError, match="was saved after the passes fuse_linear, and passes=False asks for"):
        tm.load(tmp_path / "state", flow, passes=False)


def test_an_unknown_pass_is_refused():
    with pytest.raises(tm.errors.UnknownNameError, match="no pass 'fuse_liner': did you mean 'fuse_linear'"):
        new_flow().start(passes=["fuse_liner"])
