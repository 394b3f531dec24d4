"""Window calls rendered as sums over an order: the same values as by recomputing, at every time, whatever the call."""

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_windows import SMALL, TXY, W, calls, changing_rows, schemas, several, windows
from support.running import embedded, examples, new_flow

import tidemill as tm
from tidemill.renderer.embedded.state import spines_of
from tidemill.testing import all_at_once, check_equivalent, shuffled, updates


@pytest.mark.slow
@examples(60)
@given(st.data())
def test_any_calls(data):
    schema = data.draw(schemas())
    window, order_type = data.draw(windows(schema))
    some = data.draw(st.lists(calls(schema, window, order_type), min_size=1, max_size=2))
    flow = tm.Dataflow("windows")
    columns = {f"c{i}": attrs.evolve(call, strategy="prefix_sum") for i, call in enumerate(some)}
    flow.output("y", flow.input("x", schema).with_columns(**columns))
    check_equivalent(flow, {"x": data.draw(changing_rows(schema))}, batchings=[all_at_once, shuffled(1)])


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", [1, 2, 3])
@pytest.mark.parametrize("non_negative", [True, False])
def test_several_windows(coordinates, non_negative):
    flow = new_flow(coordinates)
    flow.output("y", several(flow.input("x", TXY), "prefix_sum"))

    @examples(3, least=2)
    @given(updates(TXY, coordinates, max_size=6, non_negative=non_negative, values=SMALL))
    def check(found):
        check_equivalent(flow, {"x": found}, batchings=[shuffled(1)], passes=coordinates == 1)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", [1, 2])
def test_in_a_loop(coordinates):
    flow = new_flow(coordinates)
    x = flow.input("x", TXY)

    def body(c):
        place = tm.row_number().over(W, strategy="prefix_sum")
        running = tm.sum("x").over(W.rows_between(-1, 0), strategy="prefix_sum")
        return c.select("k", t=place, x=running).filter("x < 40").concat(x).distinct()

    flow.output("y", x.distinct().iterate(body, return_at=4))

    @examples(4)
    @given(updates(TXY, coordinates, max_size=5, latest=2, non_negative=True, values=SMALL))
    def check(found):
        check_equivalent(flow, {"x": found}, batchings=[all_at_once, shuffled(1)], passes=True)

    check()


NAN = float("nan")
LISTS: dict[str, list[tuple[object, ...]]] = {
    "list<int64>": [(None,), (0,), (), (0, None), (None,), (0,)],
    "list<float64>": [(1.0,), (NAN,), (0.0,), (5.0,), (NAN,), (None,), (NAN, 1.0), (-0.0, None)],
    "list<string>": [("b", "a"), (None,), ("b",), ("b", None)],
}


@pytest.mark.slow
@pytest.mark.parametrize("window", [tm.Window(), tm.Window.order_by("i"), tm.Window.order_by("i").rows_between(-2, 0)])
@pytest.mark.parametrize("dtype", LISTS)
def test_lists_with_nulls_and_nan_are_compared_as_values_are(dtype, window):
    """NULL is the least in a list, and NaN the greatest and equal to itself."""
    calls = {
        "least": tm.min("x").over(window, strategy="prefix_sum"),
        "greatest": tm.max("x").over(window, strategy="prefix_sum"),
    }
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", {"i": "int64", "x": dtype}).with_columns(**calls))
    check_equivalent(flow, {"x": [((i, x), i // 2, 1) for i, x in enumerate(LISTS[dtype])]})


def test_ties_are_broken_alike_where_a_call_reads_the_hash_that_breaks_them():
    flow = tm.Dataflow()
    columns = {
        "last": tm.max(tm.xxhash64("k", "t", "x")).over(W.rows_between(-1, 0), strategy="prefix_sum"),
        "place": tm.row_number().over(W, strategy="prefix_sum"),
    }
    flow.output("y", flow.input("x", TXY).with_columns(**columns))
    check_equivalent(flow, {"x": [((1, 1, x), 0, 1) for x in range(9)]})


def test_copies_of_a_row_are_rows():
    flow = tm.Dataflow()
    x = flow.input("x", {"t": "int64"})
    last = tm.sum("t").over(tm.Window.order_by("t").rows_between(-1, 0), strategy="prefix_sum")
    flow.output("y", x.with_columns(last=last))
    with flow.start() as run:
        run.update("x", [((1,), 0, 3), ((2,), 0, 1), ((1,), 1, -2)])
        run.advance()
        assert list(run.snapshot("y")) == [(1, 1), (1, 2), (1, 2), (2, 3)]
        run.advance()
        assert list(run.snapshot("y")) == [(1, 1), (2, 3)]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (tm.ntile("k"), "0: expected a number of at least 1"),
        (tm.sum("x"), "overflow"),
    ],
)
def test_a_value_that_no_row_may_have_is_an_error(call, says):
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", TXY).with_columns(n=call.over(W, strategy="prefix_sum")))
    with flow.start() as run, pytest.raises(tm.errors.TidemillError, match=says) as raised:
        run.insert("x", [(0, 2, 5), (1, 1, 2**63 - 1), (1, 2, 2**63 - 1)])
        run.advance()
    assert "'windowed'" in str(raised.value)


HOLD_FRAMES = {
    "list": tm.list("x").over(W, strategy="prefix_sum"),
    "nth": tm.nth_value("x", 2).over(W, strategy="prefix_sum"),
    "kinds": tm.count_distinct("x").over(W, strategy="prefix_sum"),
    "once": tm.sum("x").over(W, distinct=True, strategy="prefix_sum"),
    "others": tm.sum("x").over(W.exclude("current row"), strategy="prefix_sum"),
}


@pytest.mark.parametrize("coordinates", [1, 2])
@pytest.mark.parametrize("name", HOLD_FRAMES)
def test_calls_whose_sums_would_hold_their_frames_are_recomputed_and_so_are_those_beside_them(name, coordinates):
    """In loops too. Copies of a row have values that belong together: the calls of a window are made in one way."""
    flow = new_flow(coordinates)
    x = flow.input("x", TXY)
    calls = {name: HOLD_FRAMES[name], "total": tm.sum("x").over(W, strategy="prefix_sum")}
    flow.output("y", x.with_columns(**calls))
    flow.output("z", x.distinct().iterate(lambda c: c.with_columns(**calls).select("k", "t", "x").concat(x).distinct()))
    assert f"recompute (not prefix_sum: sums would hold what frames do of {name})" in flow.explain()
    assert "prefix_sum (as asked)" not in flow.explain()
    rows = [((1, t // 2, t // 3), (t % 2,) * coordinates, 1 + t % 3) for t in range(8)]
    check_equivalent(flow, {"x": rows}, batchings=[all_at_once, shuffled(1)])


@pytest.mark.parametrize("call", [tm.lag("x"), tm.max("x"), tm.rank()], ids=repr)
def test_extremes_and_calls_without_a_frame_hold_nothing(call):
    asked = {"distinct": True} if "MAX" in repr(call) else {}
    flow = tm.Dataflow()
    window = W if asked else W.exclude("ties")
    flow.output("y", flow.input("x", TXY).with_columns(c=call.over(window, strategy="prefix_sum", **asked)))
    assert "prefix_sum (as asked)" in flow.explain()


def test_explain_says_which_rendering_and_why():
    flow = tm.Dataflow()
    x = flow.input("x", TXY)
    calls_of = {how: tm.lag("x").over(W, strategy=how) for how in ("auto", "recompute", "prefix_sum")}
    flow.output("y", x.with_columns(**calls_of))
    text = flow.explain()
    assert "in order or recompute (auto)" in text
    assert "recompute (as asked)" in text
    assert "prefix_sum (as asked)" in text
    with pytest.raises(tm.errors.SchemaError, match=r"lag: over\(strategy='prefix'\): did you mean 'prefix_sum'"):
        tm.lag("x").over(W, strategy="prefix")


@pytest.mark.slow
@pytest.mark.parametrize(
    "named",
    [
        {"there#": tm.lag(tm.col("x") + 1, 2)},
        {"c": tm.lag("x"), "c before": tm.sum("x")},
        {"c": tm.lag("x", 1, 7), "c any": tm.sum("x")},
        {"c": tm.lag("x", 2, ignore_nulls=True), "c known": tm.sum("x")},
        {"c.0#": tm.sum("t"), "c": tm.max("x")},
    ],
    ids=" and ".join,
)
def test_calls_may_have_names_close_to_those_of_columns_that_are_worked_with(named):
    flow = tm.Dataflow()
    near = W.rows_between(-1, 1)
    columns = {name: call.over(near, strategy="prefix_sum") for name, call in named.items()}
    flow.output("y", flow.input("x", TXY).with_columns(**columns))
    rows = [(1, 1, 5), (1, 1, None), (1, 2, 7), (1, 3, 9), (2, 1, 2)]
    check_equivalent(flow, {"x": [(row, 0, 1) for row in rows]})


def rows_of_largest_groups(run):
    """The number of rows of the largest group in any arrangement, by its operator."""
    found = {}
    for place, (operator, spine) in spines_of(embedded(run).compiled).items():
        keys = spine.all_updates()[: len(spine.layout.keys)]
        _, counts = np.unique(keys, axis=1, return_counts=True)
        found[f"{operator.node.kind} {place} by {keys.shape[0]}"] = max(counts, default=0)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "window", "reads_size"),
    [
        (tm.lag("x"), W, False),
        (tm.rank(), W, False),
        (tm.row_number(), W, False),
        (tm.first_value("x"), W, False),
        (tm.max("x"), W, False),
        (tm.sum("x"), W.rows_between(-9, 9), False),
        (tm.sum("x"), W.range_between(-50, 0), False),
        (tm.sum("x"), W.groups_between(1, 2), False),
        (tm.ntile(4), W, True),
        (tm.percent_rank(), W, True),
        (tm.cume_dist(), W, True),
    ],
    ids=str,
)
def test_no_operator_has_a_partition_in_one_group(call, window, reads_size):
    """So that on Spark no task has all of its rows.

    But for the one row with the partition's size, which Spark brings to where the others are.
    """
    n = 4000
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", TXY, unique=True).with_columns(c=call.over(window, strategy="prefix_sum")))
    with flow.start() as run:
        run.insert("x", [(1, t, t % 7) for t in range(n)])
        run.advance()
        largest = rows_of_largest_groups(run)
    assert len(largest) > 5
    assert sum(rows > n / 10 for rows in largest.values()) == reads_size
