"""Window calls as columns: all engines agree on them at every time, in loops too, whatever is taken back."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_windows import SMALL, TXY, W, calls, changing_rows, schemas, several, windows
from support.running import examples, new_flow

import tidemill as tm
from tidemill.testing import all_at_once, check_equivalent, shuffled, updates


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", [1, 2, 3])
@pytest.mark.parametrize("non_negative", [True, False])
def test_several_windows(coordinates, non_negative):
    flow = new_flow(coordinates)
    flow.output("y", several(flow.input("x", TXY)))

    @examples(6)
    @given(updates(TXY, coordinates, max_size=8, non_negative=non_negative, values=SMALL))
    def check(found):
        for passes in (False, True):
            check_equivalent(flow, {"x": found}, batchings=[all_at_once, shuffled(1)], passes=passes)

    check()


@examples(60)
@given(st.data())
def test_any_calls(data):
    schema = data.draw(schemas())
    window, order_type = data.draw(windows(schema))
    some = data.draw(st.lists(calls(schema, window, order_type), min_size=1, max_size=3))
    flow = tm.Dataflow("windows")
    flow.output("y", flow.input("x", schema).with_columns(**{f"c{i}": call for i, call in enumerate(some)}))
    check_equivalent(flow, {"x": data.draw(changing_rows(schema))}, batchings=[all_at_once, shuffled(1)])


@pytest.mark.parametrize("coordinates", [1, 2])
def test_in_a_loop(coordinates):
    flow = new_flow(coordinates)
    x = flow.input("x", TXY)

    def body(c):
        running = c.select("k", t=tm.row_number().over(W), x=tm.sum("x").over(W.rows_between(-1, 0)))
        return running.filter("x < 40").concat(x).distinct()

    flow.output("y", x.distinct().iterate(body, return_at=4))

    @examples(6)
    @given(updates(TXY, coordinates, max_size=6, latest=2, non_negative=True, values=SMALL))
    def check(found):
        check_equivalent(flow, {"x": found}, batchings=[all_at_once, shuffled(1)], passes=True)

    check()


def test_copies_of_a_row_are_rows(engine):
    flow = tm.Dataflow()
    x = flow.input("x", {"t": "int64"})
    by_t = tm.Window.order_by("t")
    flow.output("y", x.with_columns(n=tm.row_number().over(by_t), m=tm.row_number().over(tm.Window.order_by("t % 2"))))
    with flow.start(started(engine)) as run:
        run.update("x", [((1,), 0, 3), ((2,), 0, 1), ((1,), 1, -2)])
        run.advance()
        assert list(run.snapshot("y")) == [(1, 1, 2), (1, 2, 3), (1, 3, 4), (2, 4, 1)]
        run.advance()
        assert list(run.snapshot("y")) == [(1, 1, 2), (2, 2, 1)]


def started(engine):
    return tm.Reference() if engine == "reference" else tm.Embedded()


BOTH = pytest.mark.parametrize("strategy", ["recompute", "prefix_sum"])


@BOTH
def test_a_row_that_is_there_less_than_no_times(engine, strategy):
    flow = tm.Dataflow()
    rank = tm.rank().over(tm.Window.partition_by("k"), strategy=strategy)
    flow.output("y", flow.input("x", {"k": "int64", "t": "int64"}).with_columns(n=rank))
    with (
        flow.start(started(engine)) as run,
        pytest.raises(tm.errors.NegativeCountError, match=r"'windowed'.* has the count -1"),
    ):
        run.update("x", [((1, 2), 0, -1)])
        run.advance()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (tm.ntile("k").over(W), r"'windowed'.*, row \(0, 2, 5\): 0: expected a number of at least 1 in `ntile AS n`"),
        (tm.sum("x").over(W), r"'windowed'.*, row \(.*\): overflow in `sum AS n`"),
    ],
)
def test_a_value_that_no_row_may_have_names_the_row(engine, call, says):
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", TXY).with_columns(n=call))
    with flow.start(started(engine)) as run, pytest.raises(tm.errors.ExpressionError, match=says):
        run.insert("x", [(0, 2, 5), (1, 1, 2**63 - 1), (1, 2, 2**63 - 1)])
        run.advance()


NINES = Decimal(10**38 - 1)
OVERFLOWS = {
    "a sum": (lambda over: over(tm.sum("x")), "int64", 2**63 - 1, "sum"),
    "a sum in an expression": (lambda over: over(tm.sum("x")) + 1, "int64", 2**63 - 1, "sum"),
    "a sum of decimals": (lambda over: over(tm.sum("x")), "decimal(38,0)", NINES, "sum"),
    "a mean of decimals": (lambda over: over(tm.avg("x")), "decimal(38,0)", NINES, "avg"),
}


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("frame", [W, W.rows_between(-1, 0), W.rows_between(-20, 1)], ids=lambda w: str(w.frame))
@pytest.mark.parametrize("case", OVERFLOWS)
def test_an_overflow_names_the_call_and_the_users_row_alone(engine, strategy, case, frame):
    """Under prefix_sum it showed the columns that the sum was worked out from, and decimals a function of ours."""
    made, kind, value, function = OVERFLOWS[case]
    flow = tm.Dataflow()
    x = flow.input("x", {"k": "int64", "t": "int64", "x": kind})
    total = made(lambda call: call.over(frame, strategy=strategy))
    flow.output("y", x.with_columns(total=total, n=tm.count().over(W.rows_between(-2, 2), strategy=strategy)))
    with flow.start(started(engine)) as run, pytest.raises(tm.errors.ExpressionError) as caught:
        run.insert("x", [(1, t, value) for t in range(3)])
        run.advance()
    row = caught.value.row
    assert row in [(1, t, value) for t in range(3)]
    assert str(caught.value).endswith(f", row {row}: overflow in `{function} AS total`")
    assert f"'windowed' ({__file__}:" in str(caught.value)
    assert (caught.value.column, caught.value.site.file) == ("total", __file__)


BY_ROW, BY_PEERS = tm.lag("x"), tm.sum("x")


@BOTH
@pytest.mark.parametrize("call", [BY_ROW, BY_PEERS])
@pytest.mark.parametrize("keys", [("k",), ()])
def test_a_negative_count_that_neighbours_make_up_for_names_the_users_row(engine, strategy, call, keys):
    """Of two rows that are peers one is there three times, the other less than no times: together they are two."""
    flow = tm.Dataflow()
    window = tm.Window.partition_by(*keys).order_by("t")
    flow.output("y", flow.input("x", TXY).with_columns(n=call.over(window, strategy=strategy)))
    says = rf"'windowed'.*, key \({'1,' * bool(keys)}\): row \(1, 2, 9\) has the count -1, and a negative count"
    with flow.start(started(engine)) as run, pytest.raises(tm.errors.NegativeCountError, match=says) as caught:
        run.update("x", [((1, 2, 5), 0, 3), ((1, 2, 9), 0, -1), ((1, 3, 9), 0, 1)])
        run.advance()
    assert caught.value.site.file == __file__


@BOTH
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (tm.ntile("x"), "ntile"),
        (tm.nth_value("t", "x"), "nth_value"),
        (tm.nth_value("t", "x", ignore_nulls=True), "nth_value"),
    ],
)
@pytest.mark.parametrize("made", [lambda x: x, lambda x: x.distinct()])
def test_a_number_from_the_row_that_is_too_small_names_the_row(engine, strategy, call, said, made):
    flow = tm.Dataflow()
    flow.output("y", made(flow.input("x", TXY)).with_columns(n=call.over(W, strategy=strategy)))
    says = rf"'windowed'.*, row \(1, 3, -2\): -2: expected a number of at least 1 in `{said} AS n`"
    with flow.start(started(engine)) as run:
        run.insert("x", [(1, 1, 1), (1, 2, None)])
        run.advance()
        run.insert("x", [(1, 3, -2)])
        with pytest.raises(tm.errors.ExpressionError, match=says):
            run.advance()
        run.delete("x", [(1, 3, -2)])
        run.advance()
        assert len(run.snapshot("y")) == 2


@BOTH
def test_a_number_that_is_taken_back_in_the_same_step_is_none(engine, strategy):
    flow = tm.Dataflow()
    flow.output("y", flow.input("x", TXY).with_columns(n=tm.ntile("x").over(W, strategy=strategy)))
    with flow.start(started(engine)) as run:
        run.update("x", [((1, 1, 0), 0, 1), ((1, 1, 0), 0, -1), ((1, 1, 2), 0, 1)])
        run.advance()
        assert list(run.snapshot("y")) == [(1, 1, 2, 1)]


@pytest.mark.parametrize(
    ("made", "checked"),
    {
        "an input": (lambda x: x, True),
        "distinct rows": (lambda x: x.distinct(), False),
        "rows of a group": (lambda x: x.group_by("k", "t").agg(x=tm.sum("x")), False),
        "rows taken away": (lambda x: x.distinct().negate(), True),
    }.values(),
)
def test_counts_are_checked_where_they_may_be_negative(made, checked):
    flow = tm.Dataflow()
    flow.output("y", made(flow.input("x", TXY)).with_columns(n=tm.sum("x").over(W, strategy="prefix_sum")))
    assert ("no negative counts" in flow.explain(passes=True)) == checked


def test_what_is_kept_is_saved(tmp_path):
    def flow():
        made = tm.Dataflow("saved")
        made.output("y", several(made.input("x", TXY)))
        return made

    rows = [(1, 1, 5), (1, 2, 7), (2, 1, 1), (2, 1, None)]
    with flow().start() as run:
        run.insert("x", rows)
        run.advance()
        run.save(tmp_path / "run")
    with tm.load(tmp_path / "run", flow()) as run, flow().start() as other:
        other.insert("x", [*rows, (1, 2, 8)])
        other.advance()
        run.insert("x", [(1, 2, 8)])
        run.advance()
        assert list(run.snapshot("y")) == list(other.snapshot("y"))
