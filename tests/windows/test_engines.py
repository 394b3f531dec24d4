"""Window calls as columns: all engines agree on them at every time, in loops too, whatever is taken back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_windows import SMALL, TXY, W, calls, changing_rows, schemas, several, windows
from running import examples, new_flow

import tidemill as tm
from tidemill.testing import all_at_once, check_equivalent, shuffled, updates


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


def test_a_row_that_is_there_less_than_no_times(engine):
    flow = tm.Dataflow()
    ranked = flow.input("x", {"k": "int64", "t": "int64"}).with_columns(n=tm.rank().over(tm.Window.partition_by("k")))
    flow.output("y", ranked)
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
