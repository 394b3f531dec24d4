"""The main job beside Spark, on a slice of the real data, with all epochs at once as one more check."""

import contextlib
import io
import re
from collections import Counter

import pytest

from tidemill.cli import main
from tidemill.demo import history, play

SLICE = ["demo", "--engine", "spark", "--start-day", "2013-01-23", "--history", "2", "--days", "1", "--recompute", "1"]


def demo(render):
    """Run it with something in the place of the rendering; return its exit code and what it printed."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as out:
        patch.setattr(play, "rendered", render)
        return main(SLICE), out.getvalue()


@pytest.fixture(scope="module")
def played(spark):
    """What the demo did, and what was rendered in it, on which session, of how many changes."""
    rendered = []

    def render(flow, session, dimensions, changes):
        rendered.append((history.rendered(flow, session, dimensions, changes), session, len(changes)))
        return rendered[-1][0]

    return *demo(render), rendered


def test_a_slice_is_played_and_rendered(spark, played):
    code, out, [(updates, session, changes)] = played
    assert (code, session, changes) == (0, spark, 6)
    assert {time for *_, time in updates["routes"]} == set(range(6))
    assert "Kept up to date by a run beside Spark (tm.Spark)" in out
    assert "given the history and all epochs at once, as DataFrames with their times (tm.render)" in " ".join(
        out.split()
    )
    assert re.fullmatch(
        r"checked: 10 outputs, [\d,]+ rows equal to a recomputation from scratch, to DuckDB, "
        r"to what Spark makes of all epochs at once and to the sum of all changes: ok",
        out.splitlines()[-1],
    )


def test_one_update_that_differs_is_said_aloud(played):
    _, _, [(updates, *_)] = played
    update = next(iter(updates["routes"]))
    others = Counter({u: n for u, n in updates["routes"].items() if u != update})
    code, out = demo(lambda *_: {**updates, "routes": others})
    assert code == 1
    lines = out.splitlines()
    assert lines[-1] == "CHECK FAILED: 1 comparison differs, see above"
    (line,) = [line for line in lines if line.startswith("WRONG")]
    assert "after all epochs, output 'routes': 1 row differs from what Spark makes of all epochs at once" in line
    assert repr(update) in line
