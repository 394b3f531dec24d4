"""What sums over an order add up: exactly, in order, of every type; and what cannot be."""

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples, start

import tidemill as tm
from tidemill.algorithms import BlockShape, combine, interval_sum, offset_search, order_sums, prefix_sum
from tidemill.algorithms.prefix_sums.combiners import Choice, Count, WholeSum
from tidemill.algorithms.prefix_sums.quotients import LastValues, Quotient
from tidemill.errors import ExpressionError, SchemaError, UserFunctionError
from tidemill.expressions.types import BOOL, FLOAT64, INT64

SHAPE = BlockShape(1, 2)


def over(engine, kind, values, *queries, **sums):
    """The sums of values at 0, 1, 2... over intervals."""
    flow = tm.Dataflow("sums")
    rows = flow.constant({"i": "int64", "x": kind}, list(enumerate(values)))
    asked = flow.constant({"low": "int64", "high": "int64"}, list(queries))
    flow.output("sums", interval_sum(rows, asked, index="i", shape=SHAPE, **sums))
    with start(flow, engine) as run:
        run.close_inputs()
        found = {row[:2]: row[2:] for row in run.snapshot("sums")}
    return [found[q] if len(sums) > 1 else found[q][0] for q in queries]


@pytest.mark.slow
def test_floats_are_rounded_once_and_nothing_is_taken_away(engine):
    frames = [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5)]
    found = over(engine, "float64", [1.0, 2.0, math.nan, 3.0, 4.0], *frames, total=combine.sum("x"))
    assert repr(found) == "[1.0, 3.0, nan, nan, 7.0]"
    assert over(engine, "float64", [1e20, 1.0], (0, 2), (1, 2), total=combine.sum("x")) == [1e20, 1.0]
    many = [1e20, 1.0, -1e20, None, 2.0**-1074, 0.1, 0.2, -1e308, 1e308, 1e308]
    found = over(engine, "float64", many, (0, 3), (4, 5), (5, 7), (7, 10), (8, 10), (3, 4), total=combine.sum("x"))
    assert found == [1.0, 5e-324, 0.1 + 0.2, 1e308, math.inf, None]
    found = over(engine, "float64", [math.inf, 1.0, -math.inf], (0, 2), (0, 3), (1, 3), total=combine.sum("x"))
    assert repr(found) == "[inf, nan, -inf]"


@pytest.mark.slow
def test_only_the_sum_itself_may_overflow(engine):
    most = 2**63 - 1
    found = over(engine, "int64", [most, most, -most, -most, 5], (0, 4), (1, 5), (4, 5), total=combine.sum("x"))
    assert found == [0, 5 - most, 5]
    with pytest.raises(ExpressionError, match=r"row \(0, 2\): overflow in `sum AS total`"):
        over(engine, "int64", [most, 1], (0, 2), total=combine.sum("x"))


@pytest.mark.slow
@pytest.mark.parametrize("places", [3, 300])
@pytest.mark.parametrize("values", [lambda t: -1, lambda t: -1 - t, lambda t: (-1) ** t * (2**61 + t)])
def test_sums_and_means_of_more_than_2_31_rows(places, values):
    """Lower halves of numbers were added up to more than 64 bits, at one place or over several of them."""
    flow = tm.Dataflow("sums")
    x = flow.input("x", {"t": "int64", "v": "int64"})
    flow.output("sums", prefix_sum(x, index="t", total=combine.sum("v % 1000 - 2"), mean=combine.avg("v")))
    rows = [((t, values(t)), 0, 2**31) for t in range(places) for _ in range(3)]
    with flow.start() as run:
        run.update("x", rows)
        run.advance()
        found = {row[0]: row[1:] for row in run.snapshot("sums")}
    total = whole = 0
    for t in range(places):
        small = (abs(values(t)) % 1000) * (1 if values(t) > 0 else -1) - 2  # % has the sign of the dividend
        if t:
            assert found[t] == (total, whole / (t * 3 * 2**31))
        total, whole = total + small * 3 * 2**31, whole + values(t) * 3 * 2**31


@pytest.mark.slow
def test_decimals_are_exact(engine, falls_back):
    cents = [Decimal("0.10"), Decimal("-3.33"), Decimal("99999999.99")]
    found = over(engine, "decimal(10,2)", cents, (0, 2), (0, 3), (5, 6), total=combine.sum("x"))
    assert found == [Decimal("-3.23"), Decimal("99999996.76"), None]
    nines = Decimal(10**38 - 1)
    assert over(engine, "decimal(38,0)", [nines, nines, nines.copy_negate()], (0, 3), total=combine.sum("x")) == [nines]
    with pytest.raises(ExpressionError, match=r"row \(0, 2\): overflow in `sum AS total`"):
        over(engine, "decimal(38,0)", [nines, nines], (0, 2), total=combine.sum("x"))


@pytest.mark.slow
def test_values_go_in_by_the_order_of_their_places(engine):
    sums = {
        "first": combine.first("x"),
        "some": combine.first("x", ignore_nulls=True),
        "last": combine.last("x"),
        "latest": combine.last("x", ignore_nulls=True),
        "all": combine.list("x"),
        "two": combine.list("x", last=2),
        "joined": combine.by(lambda a, b: f"{a}-{b}", "x", zero="none"),
        "least": combine.min("x"),
        "most": combine.max("x"),
    }
    found = over(engine, "string", [None, "b", "a", None, "c", None], (0, 4), (1, 6), (3, 4), (7, 9), (4, 1), **sums)
    assert found[0] == (None, "b", None, "a", (None, "b", "a", None), ("a", None), "b-a", "a", "b")
    assert found[1] == ("b", "b", None, "c", ("b", "a", None, "c", None), ("c", None), "b-a-c", "a", "c")
    assert found[2] == (None, None, None, None, (None,), (None,), "none", None, None)
    assert found[3] == found[4] == (None, None, None, None, (), (), "none", None, None)


INDEXES: dict[str, list[Any]] = {
    "string": ["", "a", "a\0", "ab", "é", "\U0001f600"],
    "binary": [b"", b"\0", b"\0\0", b"\1", b"\xff"],
    "date": [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 2, 29)],
    "timestamp": [dt.datetime(1, 1, 1), dt.datetime(2024, 2, 29, 1, 2, 3, 4)],
    "int32": [-(2**31), -1, 0, 7],
    "decimal(20,1)": [Decimal("-1.5"), Decimal(0), Decimal("99.9")],
    "bool": [False, True],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", INDEXES)
def test_indexes_of_every_type(engine, kind):
    flow = tm.Dataflow("indexes")
    rows = flow.constant({"i": kind, "x": "int64"}, [(i, n) for n, i in enumerate(INDEXES[kind])])
    flow.output("before", prefix_sum(rows, index="i", shape=SHAPE, all=combine.list("x")))
    flow.output("next", offset_search(rows, index="i", offset=1, shape=SHAPE))
    with start(flow, engine) as run:
        run.close_inputs()
        assert dict(run.snapshot("before")) == {i: tuple(range(n)) for n, i in enumerate(INDEXES[kind])}
        assert dict(run.snapshot("next")) == dict(zip(INDEXES[kind], [*INDEXES[kind][1:], None]))


def test_a_combination_that_fails_names_its_row(engine, falls_back):
    def fails(a, b):
        return a // (b - b)

    with pytest.raises(UserFunctionError, match="raised ZeroDivisionError: .*, for row"):
        over(engine, "int64", [1, 2, 3], (0, 3), total=combine.by(fails, "x"))


def test_what_cannot_be_is_said_when_the_graph_is_built():
    flow = tm.Dataflow("wrong")
    rows = flow.input("rows", {"i": "int64", "s": "string"})
    with pytest.raises(SchemaError, match=r"combine.sum: values are of type string"):
        prefix_sum(rows, index="i", total=combine.sum("s"))
    with pytest.raises(SchemaError, match=r"total: combine.sum\(\.\.\.\).filter: `i` is of type int64: expected bool"):
        prefix_sum(rows, index="i", total=combine.sum("i").filter("i"))
    with pytest.raises(SchemaError, match=r"total=.*: expected a combination, such as combine.sum"):
        prefix_sum(rows, index="i", total=tm.sum("i"))
    with pytest.raises(SchemaError, match="no count 'rows' among the sums: did you mean 'row'"):
        offset_search(order_sums(rows, index="i", row=combine.rows()), offset=1)
    with pytest.raises(SchemaError, match="last=0: expected one of them at most, of at least 1"):
        combine.list("s", last=0)
    wrong: list[Any] = [3, combine.by, tm.sum]
    for of in wrong:
        with pytest.raises(SchemaError, match=r"combine.distinct: of=.*: expected a function of one column"):
            combine.distinct("s", of=of)
    with pytest.raises(SchemaError, match=r"combine.by: 3: expected a function of two values"):
        combine.by(wrong[0], "s")
    with pytest.raises(SchemaError, match="bits=0, levels=3: expected at least 1 of each"):
        BlockShape(bits=0)


@pytest.mark.slow
def test_means_and_spreads_are_rounded_once(engine, falls_back):
    sums: dict[str, Any] = {
        "mean": combine.avg("x"),
        "variance": combine.variance("x"),
        "deviation": combine.stddev("x"),
    }
    found = over(engine, "int64", [2**62, 2**62, 2**62 + 3, None, 5], (0, 3), (1, 3), (3, 4), (4, 5), **sums)
    assert found == [
        (float(2**62 + 1), 3.0, math.sqrt(3)),
        (float(2**62 + 1), 4.5, math.sqrt(4.5)),
        (None, None, None),
        (5.0, None, None),
    ]
    found = over(engine, "float64", [0.1, 0.2, math.inf, 1e20, 1.0, -1e20], (0, 2), (1, 3), (3, 6), **sums)
    assert repr(found[1]) == "(inf, nan, nan)"
    assert found[0][0] == (0.1 + 0.2) / 2
    assert found[2][0] == 1 / 3
    cents = [Decimal("0.10"), Decimal("0.11"), Decimal("-0.11")]
    found = over(engine, "decimal(10,2)", cents, (0, 2), (1, 3), (0, 3), **sums)
    assert [row[0] for row in found] == [Decimal("0.105000"), Decimal(0), Decimal("0.033333")]


def test_different_values_count_once(engine):
    found = over(
        engine,
        "int64",
        [1, 3, 1, None, 3, 7],
        (0, 6),
        (2, 4),
        (3, 4),
        total=combine.distinct("x", of=combine.sum),
        n=combine.distinct("x", of=combine.count),
    )
    assert found == [(11, 3), (1, 1), (None, 0)]


def test_rows_that_do_not_take_part(engine):
    odd = {
        "n": combine.rows().filter("x % 2 = 1"),
        "some": combine.list("x").filter("x % 2 = 1"),
        "last": combine.last("x").filter("x > 1"),
        "any": combine.bool_or("x > 6"),
        "all": combine.bool_and("x > 0"),
    }
    found = over(engine, "int64", [1, 4, 3, None, 8], (0, 5), (1, 2), (3, 4), **odd)
    assert found == [(2, (1, 3), 8, True, True), (0, (), 4, False, True), (0, (), None, None, None)]


@pytest.mark.parametrize("values", [[], [1, None, -(2**40), 2**63 - 1], [None], [-1, 0]])
@pytest.mark.parametrize(
    "combiner",
    [WholeSum(), Count(), Choice("max", (INT64,)), Choice("last", (BOOL, INT64)), Quotient.avg(INT64, FLOAT64)],
    ids=lambda c: type(c).__name__,
)
def test_states_of_values_by_column_are_those_of_each(combiner, values):
    columns = combiner.states_of(pa.array(values, pa.int64()))
    assert [c.type for c in columns] == [t.arrow for t in combiner.types]
    found = list(zip(*(c.to_pylist() for c in columns), strict=True))
    assert found == [combiner.state(v) for v in values]


@pytest.mark.slow
@examples(60)
@given(
    st.lists(st.lists(st.one_of(st.none(), st.lists(st.none() | st.integers(0, 9), min_size=1, max_size=4)))),
    st.integers(1, 5),
    st.integers(0, 2),
)
def test_the_last_values_by_column_are_those_of_each(lists, kept, left_out):
    """Lists of states, of which the first is what comes before the rest."""
    combiner = LastValues(WholeSum(), INT64, kept, min(left_out, kept - 1))
    states = [[(None if state is None else tuple(state),) for state in some] for some in lists]
    before = [some[0] if some else (None,) for some in states]
    inside = [some[1:] for some in states]
    offsets = np.cumsum([0, *map(len, inside)])

    def column(values):
        return pa.array([None if v is None else list(v) for (v,) in values], combiner.types[0].arrow)

    def given_back(column):
        return [(None if v is None else tuple(v),) for v in column.to_pylist()]

    own, earlier = column([state for some in inside for state in some]), column(before)
    (folded,) = combiner.fold([own], offsets[:-1], offsets[1:])
    assert folded.type == own.type
    assert given_back(folded) == [combiner.whole(some) for some in inside]
    (scanned,) = combiner.scan([own], offsets, [earlier])
    so_far = [[b, *some[:i]] for b, some in zip(before, inside, strict=True) for i in range(len(some))]
    assert given_back(scanned) == list(map(combiner.whole, so_far))
    for inclusive in (False, True):
        ends = [[b, *some[: i + inclusive]] for b, some in zip(before, inside, strict=True) for i in range(len(some))]
        made = combiner.scan_rows([own], offsets, [earlier], inclusive=inclusive)
        found = list(zip(*(c.to_pylist() for c in made), strict=True))
        assert found == [combiner.row_state(combiner.whole(some)) for some in ends]
