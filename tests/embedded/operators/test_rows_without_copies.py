"""Many updates, of which only some columns are wanted, reach a Reduce as rows of what was there, not as a copy."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import examples

import tidemill as tm
from tidemill.errors import StepError
from tidemill.renderer.embedded.kernels import codec
from tidemill.renderer.embedded.operators import arrange, input_output, keyed, linear
from tidemill.renderer.embedded.reduce import accumulators, integer_sums
from tidemill.renderer.embedded.reduce.operator import ReduceOperator
from tidemill.renderer.embedded.trace import spine
from tidemill.testing import check_equivalent

COLUMNS = {"x": "int64", "name": "string", "amount": "float64"}
ROWS = st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", None]), st.sampled_from([0.5, -1e300, None]))


def _flow():
    """Return a dataflow of Reduces, some of which read several projections at once."""
    flow = tm.Dataflow()
    rows = flow.input("rows", COLUMNS)
    by_name = rows.group_by("name").agg(n=tm.count(), total=tm.sum("amount"), x=tm.max("x"), y=tm.sum("x"))
    flow.output("by_name", by_name)
    flow.output("two_keys", rows.group_by("amount", "x").agg(n=tm.count(), least=tm.min("name")))
    flow.output("sums", rows.group_by("x", "name").agg(n=tm.count(), y=tm.sum("x"), named=tm.count("name")))
    flow.output("all", rows.agg(n=tm.count(), x=tm.max("x")))
    flow.output("first", rows.group_by("name").top_k(2, order_by=[tm.desc("amount")]))
    renamed = rows.select("amount", "name", x="x")
    both = rows.select("amount", "name", "x").concat(renamed)
    flow.output("of_two", both.group_by("name").agg(n=tm.count(), total=tm.sum("amount")))
    flow.output("users", rows.group_by("name").reduce(lambda _, group: [((len(group),), 1)], {"n": "int64"}))
    w = tm.Window.partition_by("name").order_by("amount", "x")
    flow.output("windows", rows.select("name", "amount", "x", before=tm.lag("x").over(w)))
    return flow


@pytest.fixture
def any_is_large(monkeypatch):
    monkeypatch.setattr(linear, "LARGE", 0)
    monkeypatch.setattr(input_output, "LARGE", 0)
    monkeypatch.setattr(codec, "_LONG", 2)
    monkeypatch.setattr(accumulators, "MANY", 0)
    monkeypatch.setattr(arrange, "_SORTED", 3)
    monkeypatch.setattr(keyed, "_MANY", 0)
    monkeypatch.setattr(integer_sums, "_EACH", 0.1)  # a table may have ten times as many places as there are updates
    monkeypatch.setattr(spine, "TAIL", 3)


@pytest.mark.slow
def test_all_that_read_them_give_what_they_give_of_a_matrix(any_is_large):
    flow = _flow()

    @examples(60)
    @given(st.lists(st.tuples(ROWS, st.integers(0, 2), st.just(1)), max_size=25))
    def check(updates):
        check_equivalent(flow, {"rows": updates}, engines=["reference", "embedded"])

    check()


def test_what_comes_to_nothing_and_what_is_left_over_in_a_later_step(any_is_large):
    """Sums by tables of keys, of several batches, times and counts, with what was there before."""
    flow = tm.Dataflow()
    rows = flow.input("rows", {"x": "int64", "y": "int64"})
    flow.output("sums", rows.group_by("x").agg(n=tm.count(), y=tm.sum("y")))
    flow.output("counts", rows.group_by("x", "y").agg(n=tm.count()))

    @examples(60)
    @given(
        st.lists(
            st.tuples(st.tuples(st.integers(-2, 2), st.integers(0, 1)), st.integers(0, 2), st.integers(-2, 2)),
            max_size=25,
        )
    )
    def check(updates):
        check_equivalent(flow, {"rows": updates}, engines=["reference", "embedded"])

    check()
    with flow.start() as run:
        table = pa.table({"x": [7, 7, 9, 7], "y": [1, 1, 2**40, -1]})
        run.insert("rows", table)
        run.advance()
        assert sorted(run.changes("sums")) == [((7, 3, 1), 0, 1), ((9, 1, 2**40), 0, 1)]
        run.delete("rows", table.slice(1, 2))
        run.advance()
        assert sorted(run.changes("sums")) == [((7, 2, 0), 1, 1), ((7, 3, 1), 1, -1), ((9, 1, 2**40), 1, -1)]
        run.delete("rows", table.slice(0, 1))
        run.insert("rows", table.slice(0, 1))
        run.advance()
        assert list(run.changes("sums")) == []
        assert list(run.snapshot("counts")) == [(7, -1, 1), (7, 1, 1)]


@pytest.mark.parametrize("due", [0, 3])
def test_rows_that_wait_for_their_step_are_told_and_can_be_discarded(any_is_large, due):
    flow = tm.Dataflow()
    rows = flow.input("rows", {"x": "int64"})
    flow.output("n", rows.group_by("x").agg(n=tm.count()))
    table = pa.table({"x": np.arange(100) % 5})
    with flow.start() as run:
        run.insert("rows", table, time=due)
        (waiting,) = [o for o in run.metrics() if o.kind == "Input"]
        assert (waiting.waiting, waiting.bytes) == (100, 800)
        run.discard()
        run.insert("rows", table, time=due)
        run.insert("rows", table.slice(0, 7), time=due)
        run.advance()
        assert list(run.snapshot("n")) == ([] if due else [(0, 22), (1, 22), (2, 21), (3, 21), (4, 21)])
        if due:
            run.advance_to(due + 1)
        assert list(run.snapshot("n")) == [(0, 22), (1, 22), (2, 21), (3, 21), (4, 21)]


def test_they_are_not_copied(monkeypatch):
    seen = []
    take = ReduceOperator.accept_rows
    monkeypatch.setattr(ReduceOperator, "accept_rows", lambda self, port, rows, at: (
        seen.append(rows), take(self, port, rows, at)
    ))  # fmt: skip
    flow = tm.Dataflow()
    rows = flow.input("rows", COLUMNS)
    flow.output("n", rows.group_by("name").agg(x=tm.sum("x"), total=tm.sum("amount")))
    n = 20_000
    with flow.start() as run:
        table = {"x": np.arange(n), "name": ["a", "b"] * (n // 2), "amount": np.ones(n)}
        run.insert("rows", pa.table(table))
        run.advance()
        assert sorted(run.snapshot("n")) == [("a", sum(range(0, n, 2)), n / 2), ("b", sum(range(1, n, 2)), n / 2)]
    ((name, *others),) = seen
    assert len(others) == 4
    assert all(row.base is name.base for row in others[:2])
    assert [row.strides for row in others[2:]] == [(0,), (0,)]  # the time and the count, which take no memory


def test_a_step_that_fails_leaves_nothing_of_them_behind(any_is_large):
    flow = tm.Dataflow()
    rows = flow.input("rows", COLUMNS)
    flow.output("sums", rows.group_by("name").agg(x=tm.sum("x")))
    with flow.start() as run:
        run.insert("rows", [(2**62, "a", 1.0)] * 4)
        with pytest.raises(StepError, match="overflow"):
            run.advance()
        run.delete("rows", [(2**62, "a", 1.0)] * 3)
        run.advance()
        assert list(run.snapshot("sums")) == [("a", 2**62)]


@pytest.mark.parametrize("epoch", [0, 2])
def test_times_of_large_batches_are_what_they_are(any_is_large, epoch):
    """Zeros are not written where memory holds them anyway."""
    flow = tm.Dataflow()
    one, other = flow.input("one", COLUMNS), flow.input("other", {"x": "int64", "y": "int64"})
    flow.output("rows", one.select("name", "x"))
    flow.output("pairs", one.join(other, on="x").select("name", "x", "y"))
    n = 5_000
    with flow.start(keep=9) as run:
        if epoch:
            run.advance_to(epoch)
        for at in (epoch, epoch + 1):
            run.insert("one", pa.table({"x": np.arange(n), "name": ["a"] * n, "amount": np.ones(n)}), time=at)
            run.insert("other", pa.table({"x": np.arange(n) // 2, "y": np.arange(n)}), time=at)
        run.advance_to(epoch + 2)
        rows, pairs = (list(run.changes(name)) for name in ("rows", "pairs"))
    assert {(time, diff) for _, time, diff in rows} == {(epoch, 1), (epoch + 1, 1)}
    assert len(rows) == 2 * n
    assert {(time, diff) for _, time, diff in pairs} == {(epoch, 1), (epoch + 1, 3)}  # 1 pair, then 4
    assert len(pairs) == 2 * n
