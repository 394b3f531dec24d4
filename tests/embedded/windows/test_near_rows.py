"""Of small partitions only the rows near to those that changed are computed anew, where rows alone say how far."""

import numpy as np
import pyarrow as pa
import pytest
from support.random_windows import TXY, W

import tidemill as tm
from tidemill.renderer.embedded.windows import whole_partitions
from tidemill.renderer.embedded.windows.evaluate import recompute

CALLS = {
    "offsets": {"before": tm.lag("x").over(W), "behind": tm.lead("x", 2).over(W)},
    "frames": {
        "near": tm.sum("x").over(W.rows_between(-3, 1)),
        "first": tm.first_value("x").over(W.rows_between(1, 2)),
    },
    "all before": {"place": tm.row_number().over(W), "before": tm.lag("x").over(W)},
}
"""How far calls look, by name; of the last, all rows before are reached."""


def flow_of(calls):
    flow = tm.Dataflow("near rows")
    flow.output("y", flow.input("x", TXY).with_columns(**calls))
    return flow


def rows_of(dice, n, partitions):
    """Return rows with ties and copies."""
    drawn = dice.integers(0, partitions, n), dice.integers(0, 60, n), dice.integers(0, 30, n)
    return pa.table(dict(zip(TXY, drawn, strict=True)))


def of(table, places):
    return table.take(pa.array(places))


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("partitions", [200, 12])
def test_steps_hold_what_a_load_does(calls, partitions):
    dice = np.random.default_rng(partitions)
    held = rows_of(dice, 40 * partitions, partitions)
    with flow_of(calls).start() as run:
        run.insert("x", held)
        run.advance()
        for _ in range(12):
            gone = dice.choice(held.num_rows, 7, replace=False)
            come = rows_of(dice, 7, partitions + 1)
            run.delete("x", of(held, gone))
            run.insert("x", come)
            held = pa.concat_tables([of(held, np.setdiff1d(np.arange(held.num_rows), gone)), come])
            run.advance()
            with flow_of(calls).start() as anew:
                anew.insert("x", held)
                anew.advance()
                assert list(run.snapshot("y")) == list(anew.snapshot("y"))


@pytest.mark.parametrize(("name", "most"), [("offsets", 400), ("frames", 500), ("all before", 2000)])
def test_values_are_computed_of_rows_near_to_changes(name, most, monkeypatch):
    computed = []

    def counted(windows, types, given, interner):
        computed.append(len(given.counts))
        return recompute(windows, types, given, interner)

    monkeypatch.setattr(whole_partitions, "recompute", counted)
    dice = np.random.default_rng(1)
    with flow_of(CALLS[name]).start() as run:
        run.insert("x", rows_of(dice, 20_000, 200))
        run.advance()
        computed.clear()
        run.insert("x", rows_of(dice, 10, 200))
        run.advance()
    assert sum(computed) <= most
    assert sum(computed) > 1000 or name != "all before"  # both before and after


def test_a_row_that_is_only_looked_at_may_have_no_value_without_those_before_it():
    """Sums of four are in bounds, and of some of the four they are not: of all rows every sum is one of four."""
    large, times = 2**62 + 1, np.arange(60)
    x = np.where(times % 4 % 3 == 0, large, -large)
    held = pa.table({"k": np.arange(10).repeat(60), "t": np.tile(times, 10), "x": np.tile(x, 10)}).select(list(TXY))
    calls = {"near": tm.sum("x").over(W.rows_between(-3, 0))}
    with flow_of(calls).start() as run, flow_of(calls).start() as anew:
        run.insert("x", held)
        run.advance()
        more = pa.table({"k": np.arange(10), "t": np.arange(20, 30), "x": np.zeros(10, np.int64)}).select(list(TXY))
        run.insert("x", more)
        run.advance()
        anew.insert("x", pa.concat_tables([held, more]))
        anew.advance()
        assert list(run.snapshot("y")) == list(anew.snapshot("y"))
