"""Extremes of peer groups around each row, of which many change at once: most are noticed by no other row."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import examples
from table_steps import check_steps, to_and_fro

import tidemill as tm
from tidemill.expressions.types import INT64
from tidemill.expressions.windows.frames import Frame
from tidemill.renderer.embedded.kernels.codec import Interner
from tidemill.renderer.embedded.trace.row_order import RowOrder, SortColumn
from tidemill.renderer.embedded.windows.edits import ManyEdits
from tidemill.renderer.embedded.windows.many_places import places_of
from tidemill.renderer.embedded.windows.many_runs import starts_of_groups
from tidemill.renderer.embedded.windows.many_unnoticed import Extremes, Unnoticed, _Extreme
from tidemill.renderer.embedded.windows.ordered_partition import OrderedPartition

SCHEMA = {"t": "int64", "x": "int64", "f": "float64"}
ORDERED = tm.Window.order_by("t")
BY_BOTH = RowOrder([SortColumn(0, INT64), SortColumn(1, INT64)], Interner())
EXCLUSIONS = ("no others", "current row", "group", "ties")


@pytest.fixture
def left_alone(monkeypatch):
    """How many edits no other row noticed, and of how many, each time."""
    found = []
    values = Unnoticed.values
    monkeypatch.setattr(
        Unnoticed,
        "values",
        lambda self: found.append((int(np.count_nonzero(self.here)), len(self.here))) or values(self),
    )
    return found


def rows_of(dice, count, groups, values):
    t, x = dice.integers(0, groups, count), dice.integers(0, values, count)
    x, t = pa.array(x, mask=dice.random(count) < 0.1), pa.array(t, mask=dice.random(count) < 0.05)
    return pa.table({"t": t, "x": x, "f": dice.integers(0, values, count) / 4})


def least(rows, call):
    """Return the least x in the frame of each of some rows (t, x), by row."""
    groups = sorted({t for t, _ in rows})
    found = {}
    for at, (t, x) in enumerate(rows):
        place = groups.index(t)
        inside = set(groups[max(place - call.before, 0) : place + call.after + 1])
        left_out = call.frame.exclusion
        values = [
            other
            for i, (group, other) in enumerate(rows)
            if group in inside
            and (i == at or left_out not in {"group", "ties"} or group != t)
            and not (i == at and left_out in {"group", "current row"})
        ]
        found[t, x] = min(values, default=None)
    return found


@pytest.mark.parametrize("left_out", EXCLUSIONS)
def test_no_other_row_has_another_value_for_what_is_not_noticed(left_out):
    """Whatever else changes. Few rows have the least numbers, so that it matters which frames these are in."""
    dice = np.random.default_rng(3)
    assert sum(_unnoticed_of_random(dice, left_out) for _ in range(600)) > 100


def _unnoticed_of_random(dice, left_out):
    """Check it of a few random edits, and return how many of them are not noticed."""
    before, after = dice.integers(4, 8, 2).tolist()
    groups = np.repeat(np.arange(20) * 2, dice.integers(1, 4, 20)).tolist()
    rows = sorted((t, 100 * (dice.random() < 0.5) + i % 9) for i, t in enumerate(groups))
    changes: dict[tuple[int, int], int] = {}
    for _ in range(dice.integers(1, 5)):
        t, x = rows[dice.integers(len(rows))]
        sign = dice.choice([-1, 1])  # rows that come have peers, mostly
        changes.setdefault((t, x) if sign < 0 else (t + int(dice.random() < 0.2), dice.integers(10).item()), sign)
    changes = {row: sign for row, sign in changes.items() if sign < 0 or row not in rows}
    if not changes:
        return 0
    partition = OrderedPartition((np.array(rows).T,), BY_BOTH, 1)
    changed = sorted(changes)
    codes = np.array(changed).T
    edits = ManyEdits(places_of(partition, codes)[0], codes, np.array([changes[row] for row in changed]))
    frame = Frame("groups", -before, after, left_out)
    found = Extremes((_Extreme(1, -1, before, after, frame),)).unnoticed(partition, edits, starts_of_groups(partition))

    def after_those(which):
        left = list(rows)
        for row in which:
            left.remove(row) if changes[row] < 0 else left.append(row)
        return sorted(left)

    noticed = [row for row, is_here in zip(changed, found.here.tolist(), strict=True) if not is_here]
    without, everything = (least(after_those(some), found.extremes.calls[0]) for some in (noticed, changed))
    same = [row for row in without if row in everything and row not in changes]
    assert {row: without[row] for row in same} == {row: everything[row] for row in same}
    return len(changed) - len(noticed)


@pytest.mark.usefixtures("few_are_many")
@examples(20)
@given(
    st.lists(
        st.tuples(st.sampled_from([tm.min, tm.max]), st.sampled_from("xf"), st.integers(1, 9), st.integers(1, 9),
                  st.sampled_from(EXCLUSIONS)),
        min_size=1, max_size=2,
    ),
    st.integers(8, 30), st.integers(1, 6), st.integers(2, 9), st.integers(0, 2**32),
)  # fmt: skip
def test_extremes_of_groups_are_those_of_the_reference_engine(some, groups, values, edits, seed):
    flow = tm.Dataflow("unnoticed")
    calls = {
        f"y{i}": extreme(column).over(ORDERED.groups_between(-before, after).exclude(left_out))
        for i, (extreme, column, before, after, left_out) in enumerate(some)
    }
    flow.output("y", flow.input("rows", SCHEMA).with_columns(**calls))
    dice = np.random.default_rng(seed)
    loaded, more = rows_of(dice, 4 * groups, groups, values), rows_of(dice, edits, groups + 2, values)
    check_steps(flow, to_and_fro(dice, loaded, more, edits))


@pytest.mark.parametrize("left_out", EXCLUSIONS)
def test_rows_that_are_noticed_and_others(left_out, few_are_many, left_alone):
    """And those among the rows of runs that are computed anyway; also where all are noticed, or none is."""
    flow = tm.Dataflow("unnoticed")
    call = tm.min("x").over(ORDERED.groups_between(-8, 9).exclude(left_out))
    flow.output("y", flow.input("rows", SCHEMA).with_columns(y=call))
    dice = np.random.default_rng(5)
    loaded, more = rows_of(dice, 240, 80, 5), rows_of(dice, 12, 80, 5)
    lower = more.take(pa.array([3])).set_column(1, "x", pa.array([-1]))
    steps = to_and_fro(dice, loaded, more, 12)
    check_steps(flow, [*steps, [("insert", lower), ("insert", more)], [("delete", lower), ("delete", more)]])
    assert len(left_alone) == 5
    assert all(0 < count < of for count, of in left_alone[-2:])
    assert sum(count for count, _ in left_alone[:3]) > 6


def test_rows_between_two_bounds_by_number_are_not_looked_at_so(few_are_many, left_alone):
    flow = tm.Dataflow("unnoticed")
    flow.output("y", flow.input("rows", SCHEMA).with_columns(y=tm.min("x").over(ORDERED.rows_between(-8, 9))))
    dice = np.random.default_rng(5)
    loaded, more = rows_of(dice, 200, 50, 5), rows_of(dice, 12, 50, 5)
    check_steps(flow, to_and_fro(dice, loaded, more, 12))
    assert left_alone == []
