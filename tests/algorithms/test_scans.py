"""Combiners over whole columns: what is before each state in its list, as their meaning on states has it."""

import random

import numpy as np
import pyarrow as pa
import pytest

from tidemill.algorithms import combine
from tidemill.algorithms.prefix_sums.columns import column_values
from tidemill.algorithms.prefix_sums.quotients import LastValues
from tidemill.expressions.types import FLOAT64, INT64

NAMES = ("count", "sum", "min", "max", "first", "last", "avg", "variance", "list")


def columns(states, combiner):
    made = zip(*states, strict=True) if states else [()] * len(combiner.types)
    return [pa.array(list(values), t.arrow) for values, t in zip(made, combiner.types, strict=True)]


def rows(found):
    return list(zip(*map(column_values, found), strict=True))


@pytest.mark.parametrize("dtype", [INT64, FLOAT64], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["all", "last rows"])
@pytest.mark.parametrize("name", NAMES)
def test_scans_are_what_comes_before_in_each_list(name, last, dtype):
    chance = random.Random(f"{name} {last} {dtype}")
    combiner = getattr(combine, name)("x").combiner(dtype)
    if last:
        combiner = LastValues(combiner, dtype, kept=3, left_out=1)

    def state():
        value = chance.randrange(-9, 9) if dtype == INT64 else chance.randrange(-9, 9) / 4
        return combiner.zero if chance.random() < 0.15 else combiner.state(None if chance.random() < 0.3 else value)

    for _ in range(20):
        lists = [[state() for _ in range(chance.randrange(5))] for _ in range(chance.randrange(1, 5))]
        before = [combiner.whole([state() for _ in range(chance.randrange(3))]) for _ in lists]
        offsets = np.append(0, np.cumsum([len(some) for some in lists]))
        given = columns([s for some in lists for s in some], combiner), offsets, columns(before, combiner)
        for inclusive in (False, True):
            pairs = zip(before, lists, strict=True)
            expected = [combiner.whole([b, *some[: i + inclusive]]) for b, some in pairs for i in range(len(some))]
            assert rows(combiner.scan(*given, inclusive=inclusive)) == list(map(tuple, expected))
            at_rows = [tuple(combiner.row_state(tuple(s))) for s in expected]
            assert rows(combiner.scan_rows(*given, inclusive=inclusive)) == at_rows
