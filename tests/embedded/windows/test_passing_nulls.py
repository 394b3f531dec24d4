"""Lag and lead that pass over NULLs find their values by counts: however long a run of NULLs is, none of it is read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_windows import TXY, W
from support.row_work import RowWork
from support.running import examples

import tidemill as tm
from tidemill.renderer.embedded.windows import order_index
from tidemill.testing import all_at_once, check_equivalent, shuffled, updates

CALLS: list[Any] = [
    tm.lag("x", ignore_nulls=True),
    tm.lead("x", ignore_nulls=True),
    tm.lag("x", 3, -1, ignore_nulls=True),
    tm.lead("x", 2, tm.col("t"), ignore_nulls=True),
    tm.lag("x", -2, ignore_nulls=True),
    tm.lag("x", 0, ignore_nulls=True),
    tm.lead("x", 2**62, ignore_nulls=True),
    tm.lead("x", None, ignore_nulls=True),
]
BESIDE = [tm.max("x").over(W.rows_between(-1, 1)), tm.rank().over(W), tm.sum("x").over(W.groups_between(0, 2))]


def of(**calls):
    flow = tm.Dataflow("passing nulls")
    flow.output("y", flow.input("x", TXY).with_columns(**calls))
    return flow


@pytest.mark.parametrize("steps", ["some edits", "edits at once"])
@examples(150)
@given(data=st.data())
def test_any_edits_among_few_values(steps, data, request):
    """Several edits a step, of which one may take what another's rows looked at, or put something before it."""
    request.getfixturevalue("small_is_large" if steps == "some edits" else "few_are_many")
    some = [call.over(W) for call in data.draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=3))]
    some += data.draw(st.lists(st.sampled_from(BESIDE), max_size=1))
    values: dict[str, list[Any]] = {"k": [1], "t": [*range(60)], "x": [None, None, None, 1, 2]}
    found = data.draw(updates(TXY, 1, max_size=60, latest=3, non_negative=True, values=values))
    found += [((1, t, None), 0, 1) for t in range(0, 60, 2)]
    flow = of(**{f"c{i}": call for i, call in enumerate(some)})
    check_equivalent(flow, {"x": found}, batchings=[all_at_once, shuffled(1)])


@pytest.mark.parametrize(
    "call",
    [
        tm.lag("x", ignore_nulls=True).over(W),
        tm.lag("x", 1, 0, ignore_nulls=True).over(W),
        tm.lead("x", ignore_nulls=True).over(W),
        tm.lead("x", 1, 0, ignore_nulls=True).over(W),
        tm.last_value("x", ignore_nulls=True).over(W.rows_between(tm.UNBOUNDED, 0)),
        tm.first_value("x", ignore_nulls=True).over(W.rows_between(0, tm.UNBOUNDED)),
        tm.nth_value("x", 2, ignore_nulls=True).over(W.rows_between(-5, 5)),
        tm.nth_value("x", 2, ignore_nulls=True).over(W.rows_between(tm.UNBOUNDED, 0)),
    ],
)
def test_a_step_costs_the_same_beside_runs_of_nulls_of_any_length(call, in_order, monkeypatch):
    """A row without a value in the midst of them; and one with a value, which hardly any row sees after another one."""

    monkeypatch.setattr(order_index, "CHUNK", 128)

    def counted(length):
        work = RowWork()
        values = {0: 1, 1: 2, length // 2: 3, length - 2: 4, length - 1: 5}
        with of(c=call).start() as run, of(c=call).start() as whole:
            run.insert("x", [(0, 2 * t, values.get(t)) for t in range(length)])
            run.advance()
            near = length + 1 if call.name in ("lead", "first_value") else length - 1
            for step in range(3):
                inserted = [(0, length // 2 + 10 * step + 1, None), (0, near, 7)]
                run.insert("x", inserted)
                with work if step else RowWork():  # the first one learns where there are values
                    run.advance()
                if step == 0:
                    run.delete("x", [inserted[1]])
            whole.insert("x", [row[:3] for row in run.snapshot("y")])
            whole.advance()
            assert run.snapshot("y").counts() == whole.snapshot("y").counts()
        return sum(work.rows)

    short, long = counted(2_048), counted(16_384)
    assert len(in_order) == 6
    assert long - short < 8 * 128  # the directory has that many chunks, where rows are 16,384


def stepped(flow, loaded, *steps):
    """Load rows, take steps in order, and see after each that the output is that of a new run."""
    with flow.start() as run:
        run.insert("x", loaded)
        run.advance()
        rows = list(loaded)
        for come in steps:
            run.insert("x", come)
            run.advance()
            rows += come
            with flow.start() as whole:
                whole.insert("x", rows)
                whole.advance()
                assert run.snapshot("y").counts() == whole.snapshot("y").counts()


@pytest.mark.parametrize("call", [tm.lag("x", ignore_nulls=True), tm.lead("x", ignore_nulls=True)])
def test_a_chunk_that_had_no_value_gets_one(call, in_order, monkeypatch):
    """And is not passed over any more, nor one beside it that is divided."""
    monkeypatch.setattr(order_index, "CHUNK", 16)
    loaded = [(0, 10 * t, 7 if t in (0, 599) else None) for t in range(600)]
    among = [(0, 3000 + i, i if i % 50 == 9 else None) for i in range(1, 100) if i % 10]
    stepped(
        of(c=call.over(W)), loaded, [(0, 3001, None)], [(0, 2001, 3), (0, 4001, 4)], [(0, 3002, None)], among[:9],
        [(0, 3099, None)], among[9:18],
    )  # fmt: skip
    assert len(in_order) == 6


def test_a_value_that_is_looked_for_may_be_in_the_midst_of_peers(in_order):
    """The row that sees another value comes out with its rank, which all of its peers have."""
    for_lead, for_lag = [(0, 10, x) for x in range(6)], [(0, 500, x) for x in range(6)]
    loaded = [*((0, t, None) for t in range(20, 480)), (0, 5, None), *for_lead, *for_lag]
    flow = of(
        a=tm.lead("x", ignore_nulls=True).over(W), b=tm.lag("x", ignore_nulls=True).over(W),
        r=tm.dense_rank().over(W), m=tm.max("x").over(W.range_between(0, 0)),
    )  # fmt: skip
    stepped(flow, loaded, [(0, 300, 9)])
    assert len(in_order) == 1


def test_a_new_peer_group_counts_in_all_groups_behind(in_order):
    loaded = [(0, 10 * (t // 2), t) for t in range(600)]
    stepped(of(d=tm.dense_rank().over(W)), loaded, [(0, 4, 1)], [(0, 2000, 1)], [(0, 2001, 1), (0, 2003, 1)])
    assert len(in_order) == 3
