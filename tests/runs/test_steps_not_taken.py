"""What makes a step impossible: the error names node, key and row and the user's line; the step leaves no trace."""

import re
from decimal import Decimal

import pytest
from support.running import KV, new_flow, start

import tidemill as tm
from tidemill.errors import (
    ExpressionError,
    IterationLimitError,
    NegativeCountError,
    StepError,
    TidemillError,
    TimeError,
    UserFunctionError,
)

BIG = 2**62


def raises(what):
    def function(*_):
        raise KeyError(what)

    return function


def lazily_raises(*_):
    yield (1, 1)
    what = "late"
    raise KeyError(what)


def row_of(key, _rows):
    return [((*key, 1), 1)]


def sums(**aggregates):
    return lambda a: a.group_by("k").agg(**aggregates)


# name: what is built; rows that are wrong; the error and what its message says.
CASES = {
    "division by zero": (
        lambda a: a.select(q="10 / v"),
        [(1, 0)], ExpressionError, ["(1, 0)", "division by zero", "10 / v"],
    ),
    "overflow": (lambda a: a.select(q="k * v"), [(BIG, 4)], ExpressionError, [str(BIG), "overflow", "k * v"]),
    "in a filter": (
        lambda a: a.filter("k % v = 0"),
        [(1, 0)], ExpressionError, ["(1, 0)", "division by zero", "k % v"],
    ),
    "cast": (
        lambda a: a.select(q="cast(k as int)"), [(BIG, 1)], ExpressionError, [str(BIG), "does not fit int32", "CAST"],
    ),
    "in an aggregate": (
        sums(n=tm.sum("k DIV v")),
        [(1, 0)], ExpressionError, ["(1, 0)", "division by zero", "k DIV v"],
    ),
    "sum overflow": (sums(n=tm.sum("v")), [(7, BIG), (7, BIG), (7, BIG)], ExpressionError, ["key (7,)", "overflow"]),
    "negative sum overflow": (
        sums(n=tm.sum("v")), [(7, -BIG), (7, -BIG)], ExpressionError, ["key (7,)", "overflow"],
    ),
    "map_rows raises": (
        lambda a: a.map_rows(raises("x"), KV),
        [(1, 2)], UserFunctionError, ["raised KeyError", "(1, 2)"],
    ),
    "map_rows arity": (lambda a: a.map_rows(lambda r: (1,), KV), [(1, 2)], UserFunctionError, ["1 values", "(1, 2)"]),
    "map_rows type": (
        lambda a: a.map_rows(lambda r: (1, "x"), KV), [(1, 2)], UserFunctionError, ["v: int64", "'x' (str)"],
    ),
    "map_rows no row": (lambda a: a.map_rows(lambda r: 7, KV), [(1, 2)], UserFunctionError, ["7 is not a row"]),
    "map_rows null": (
        lambda a: a.map_rows(lambda r: (None,), {"x": "int64 not null"}), [(1, 2)], UserFunctionError,
        ["x: int64 not null is NULL"],
    ),
    "flat_map raises": (
        lambda a: a.flat_map(raises("x"), KV),
        [(1, 2)], UserFunctionError, ["raised KeyError", "(1, 2)"],
    ),
    "flat_map raises late": (lambda a: a.flat_map(lazily_raises, KV), [(1, 2)], UserFunctionError, ["late", "(1, 2)"]),
    "flat_map one row": (lambda a: a.flat_map(lambda r: (1, 2), KV), [(1, 2)], UserFunctionError, ["1 is not a row"]),
    "flat_map nothing": (lambda a: a.flat_map(lambda r: None, KV), [(1, 2)], UserFunctionError, ["None", "(1, 2)"]),
    "reduce raises": (
        lambda a: a.group_by("k").reduce(raises("x"), KV), [(7, 2)], UserFunctionError, ["raised KeyError", "(7,)"],
    ),
    "reduce raises late": (
        lambda a: a.group_by("k").reduce(lazily_raises, KV), [(7, 2)], UserFunctionError, ["(7,)"],
    ),
    "reduce no pairs": (
        lambda a: a.group_by("k").reduce(lambda k, r: [(1, 2, 3)], KV),
        [(7, 2)], UserFunctionError, ["(7,)", "(1, 2, 3)"],
    ),
    "reduce count": (
        lambda a: a.group_by("k").reduce(lambda k, r: [((1, 1), 0.5)], KV),
        [(7, 2)], UserFunctionError, ["(7,)", "0.5"],
    ),
    "reduce type": (
        lambda a: a.group_by("k").reduce(lambda k, r: [((1, "x"), 1)], KV), [(7, 2)], UserFunctionError,
        ["(7,)", "v: int64", "'x' (str)"],
    ),
    "threshold raises": (
        lambda a: a.threshold(raises("x")),
        [(1, 2)], UserFunctionError, ["raised KeyError", "(1, 2)"],
    ),
    "threshold type": (lambda a: a.threshold(lambda r, n: "x"), [(1, 2)], UserFunctionError, ["'x'", "(1, 2)"]),
    "threshold of nothing": (lambda a: a.threshold(lambda r, n: 1), [(1, 2)], UserFunctionError, ["(1, 2)", "0"]),
    "inspect raises": (lambda a: a.inspect(raises("x")), [(1, 2)], UserFunctionError, ["raised KeyError", "(1, 2)"]),
    "delay raises": (lambda a: a.delay(raises("x")), [(1, 2)], UserFunctionError, ["raised KeyError", "time 1"]),
    "delay back": (lambda a: a.delay(lambda t: t - 1), [(1, 2)], UserFunctionError, ["time 1", "0"]),
    "delay to no time": (lambda a: a.delay(lambda t: "x"), [(1, 2)], UserFunctionError, ["time 1", "'x'"]),
    "loop": (
        lambda a: a.iterate(lambda c: c.select("k", v="v + 1"), error_at=5, name="up"), [(1, 2)], IterationLimitError,
        ["iterate 'up'", "iteration 5", "(1, "],
    ),
    "inside a loop": (
        lambda a: a.iterate(lambda c: c.select("k", v="10 DIV v").concat(a).distinct(), return_at=3), [(1, 20)],
        ExpressionError, ["division by zero", "(1, 0)"],
    ),
}  # fmt: skip
FINE = (3, 3)


def flow_of(build):
    flow = new_flow()
    a = flow.input("a", KV)
    flow.output("out", build(a))
    flow.output("a", a)
    return flow


def steady(build):
    """The flow with a function that is fine for the row that is right."""
    return flow_of(lambda a: build(a.filter("k <> 3 OR v <> 3")).select(n="1").concat(a.filter("k = 3").select(n="1")))


@pytest.mark.parametrize("case", CASES)
def test_the_message_names_node_and_row_and_line(engine, case):
    build, rows, kind, texts = CASES[case]
    with start(flow_of(build), engine) as run:
        run.advance()
        run.insert("a", rows)
        with pytest.raises(kind) as caught:
            run.advance()
    assert isinstance(caught.value, StepError)
    assert re.search(r"test_steps_not_taken.py:\d+", str(caught.value)), caught.value
    for text in texts:
        assert text in str(caught.value)


@pytest.mark.parametrize("case", ["map_rows raises", "flat_map raises", "reduce raises", "threshold raises"])
def test_the_users_exception_is_the_cause(engine, case):
    build, rows, kind, _ = CASES[case]
    with start(flow_of(build), engine) as run:
        run.insert("a", rows)
        with pytest.raises(kind) as caught:
            run.advance()
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("case", CASES)
def test_a_step_not_taken_leaves_no_trace_and_can_be_mended(engine, case):
    build, rows, kind, _ = CASES[case]
    with start(steady(build), engine, passes=False) as run:  # a pass would leave out what fails: nobody reads it
        run.insert("a", [FINE])
        run.advance()
        before = run.frontier("out"), list(run.changes("out")), list(run.snapshot("a"))
        assert before == (tm.Antichain([1]), [((1,), 0, 1)], [FINE])
        run.insert("a", [FINE])
        run.insert("a", rows)
        for _ in range(2):  # it stays as it is, however often one tries
            with pytest.raises(kind):
                run.advance()
            assert run.frontier("out") == run.frontier("a") == tm.Antichain([1])
            assert len(run.changes("out")) == len(run.changes("a")) - (_ == 0) == 0
            assert list(run.snapshot("a")) == [FINE]
        run.delete("a", rows)  # the queued rows are still there: taken back at their own time, they are no error
        run.advance()
        assert list(run.changes("out")) == [((1,), 1, 1)]
        assert list(run.snapshot("a")) == [FINE, FINE]


@pytest.mark.parametrize("case", CASES)
def test_discard_is_a_way_out(engine, case):
    build, rows, kind, _ = CASES[case]
    with start(steady(build), engine, passes=False) as run:  # a pass may leave out what nobody reads
        run.advance()
        run.insert("a", rows)
        with pytest.raises(kind):
            run.advance()
        run.discard()
        run.insert("a", [FINE])
        run.advance()
        assert list(run.changes("out")) == [((1,), 1, 1)]


@pytest.mark.parametrize("case", CASES)
def test_a_bad_row_inserted_and_deleted_at_one_time_is_no_error(engine, case):
    build, rows, _, _ = CASES[case]
    with start(steady(build), engine, passes=False) as run:
        run.update("a", [(row, 1, 1) for row in rows] + [(FINE, 1, 1)] + [(row, 1, -1) for row in rows])
        run.advance_to(2)
        assert list(run.changes("out")) == [((1,), 1, 1)]


@pytest.mark.parametrize("case", CASES)
def test_a_bad_row_deleted_at_a_later_time_is_one(engine, case):
    build, rows, kind, _ = CASES[case]
    with start(flow_of(build), engine) as run:
        run.update("a", [(row, 1, 1) for row in rows] + [(row, 2, -1) for row in rows])
        with pytest.raises(kind):
            run.close_inputs()


def test_overflow_is_judged_on_the_value_at_a_time(engine):
    """2**62 three times, less 2**62 twice: partial sums overflow, no value at a time does."""
    with start(flow_of(sums(n=tm.sum("v"))), engine) as run:
        run.insert("a", [(1, BIG)] * 3)
        run.insert("a", [(1, -BIG)] * 2)
        run.insert("a", [(1, BIG - 1), (1, -BIG)])
        run.advance()
        assert list(run.snapshot("out")) == [(1, BIG - 1)]


def test_the_limits_of_sums(engine):
    limit = 2**63 - 1
    for fits, values in ((True, [limit]), (True, [-limit]), (False, [limit, 1]), (False, [-limit, -1])):
        with start(flow_of(sums(n=tm.sum("v"))), engine) as run:
            run.insert("a", [(1, v) for v in values])
            if fits:
                run.advance()
                assert list(run.snapshot("out")) == [(1, sum(values))]
            else:
                with pytest.raises(ExpressionError, match="overflow"):
                    run.advance()


def test_decimals_overflow_by_their_precision(engine):
    flow = new_flow()
    a = flow.input("a", {"k": "int64", "d": "decimal(38,0)"})
    flow.output("out", a.group_by("k").agg(s=tm.sum("d")))
    most = Decimal(10**38 - 1)
    with start(flow, engine) as run:
        run.insert("a", [(1, most)])
        run.advance()
        assert list(run.snapshot("out")) == [(1, most)]
        run.insert("a", [(1, Decimal(1))])
        with pytest.raises(ExpressionError, match=r"test_steps_not_taken.py:\d+.*overflow"):
            run.advance()


# Counts.

NEGATIVE = {
    "min": lambda a: a.group_by("k").agg(x=tm.min("v")),
    "max": lambda a: a.group_by("k").agg(n=tm.count(), x=tm.max("v")),
    "reduce": lambda a: a.group_by("k").reduce(row_of, KV),
}


@pytest.mark.parametrize("operator", NEGATIVE)
def test_a_negative_count_where_it_has_no_meaning(engine, operator):
    with start(flow_of(NEGATIVE[operator]), engine) as run:
        run.update("a", [((7, 1), 0, 1), ((7, 2), 0, -1), ((8, 1), 0, 1)])
        with pytest.raises(NegativeCountError) as caught:
            run.advance()
        kind = "Reduce" if operator == "reduce" else "Aggregate"
        for text in (f"{kind} '{kind.lower()}'", "test_steps_not_taken.py:", "(7,)", "2", "-1"):
            assert text in str(caught.value)
        run.insert("a", [(7, 2)])
        run.advance()
        assert len(run.snapshot("out")) == 2


@pytest.mark.parametrize("operator", NEGATIVE)
def test_a_count_that_is_negative_only_for_a_while(engine, operator):
    with start(flow_of(NEGATIVE[operator]), engine) as run:
        run.update("a", [((7, 1), 2, 1), ((7, 1), 1, -1)])
        run.advance_to(1)
        with pytest.raises(NegativeCountError):
            run.advance_to(2)
        with pytest.raises(NegativeCountError):
            run.advance_to(5)
        run.discard()
        run.update("a", [((7, 1), 2, 1)])
        run.advance_to(5)
        assert len(run.snapshot("out")) == 1


def test_negative_counts_pass_where_they_have_a_meaning(engine):
    with start(flow_of(lambda a: a.negate().group_by("k").agg(n=tm.count(), s=tm.sum("v"))), engine) as run:
        run.insert("a", [(7, 1), (7, 2)])
        run.advance()
        assert list(run.snapshot("out")) == [(7, -2, -3)]


def unique():
    flow = new_flow()
    flow.output("out", flow.input("a", KV, unique=True))
    return flow


@pytest.mark.parametrize(("diff", "shown"), [(2, "2"), (-1, "-1")])
def test_a_unique_input_has_each_row_at_most_once(engine, diff, shown):
    with start(unique(), engine) as run:
        run.insert("a", [(1, 1)])
        run.advance()
        run.update("a", [((5, 6), 1, diff)])
        with pytest.raises(
            NegativeCountError, match=rf"Input 'a' \(.*test_steps_not_taken.py:\d+\).*\(5, 6\).* {shown}"
        ):
            run.advance()
        run.update("a", [((5, 6), 1, 1 - diff)])
        run.advance()
        assert sorted(run.snapshot("out")) == [(1, 1), (5, 6)]


def test_a_unique_input_is_checked_at_every_closed_time(engine):
    with start(unique(), engine) as run:
        run.update("a", [((1, 1), 0, 1), ((1, 1), 1, 1), ((1, 1), 2, -1)])
        run.advance_to(1)
        with pytest.raises(NegativeCountError, match=r"\(1, 1\)"):
            run.advance_to(5)
        run.update("a", [((1, 1), 1, -1)])
        run.advance_to(5)
        assert list(run.changes("out")) == [((1, 1), 0, 1), ((1, 1), 2, -1)]


def test_errors_beyond_the_frontier_wait(engine):
    flow = new_flow(2)
    flow.output("out", flow.input("a", KV).group_by("k").agg(x=tm.max("v")))
    with start(flow, engine) as run:
        run.update("a", [((7, 1), (0, 1), -1), ((7, 1), (0, 0), 1), ((7, 1), (1, 0), -1)])
        run.advance_to(tm.Antichain([(0, 2), (1, 1), (2, 0)]))  # each alone leaves nothing
        assert list(run.changes("out")) == [((7, 1), (0, 0), 1), ((7, 1), (0, 1), -1), ((7, 1), (1, 0), -1)]
        with pytest.raises(NegativeCountError):  # both together take it away twice
            run.close_inputs()
        run.update("a", [((7, 1), (1, 1), 1)])
        run.close_inputs()
        assert list(run.changes("out"))[-1] == ((7, 1), (1, 1), 1)


def test_a_join_whose_row_is_wrong_waits_for_both_inputs(engine):
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("out", a.join(b, on="k").select(q="v DIV v_right"))
    with start(flow, engine) as run:
        run.insert("a", [(1, 1)])
        run.insert("b", [(1, 0)])
        run.advance_to(1, input="a")
        with pytest.raises(ExpressionError, match="division by zero"):
            run.advance_to(1, input="b")
        run.delete("b", [(1, 0)])
        run.insert("b", [(1, 1)])
        run.advance_to(1, input="b")
        assert list(run.snapshot("out")) == [(1,)]


def test_upserts_survive_a_step_not_taken(engine):
    flow = new_flow()
    flow.output("out", flow.input("a", KV, key="k").select("k", q="10 DIV v"))
    with start(flow, engine) as run:
        run.upsert("a", [(1, 5), (2, 0)])
        with pytest.raises(ExpressionError, match=r"\(2, 0\)"):
            run.advance()
        run.upsert("a", [(2, 2)])
        run.advance()
        assert sorted(run.snapshot("out")) == [(1, 2), (2, 5)]


def test_all_errors_have_one_root():
    for name in tm.errors.__all__:
        error = getattr(tm.errors, name)
        assert not isinstance(error, type) or issubclass(error, (TidemillError, Warning))


@pytest.mark.parametrize("coordinates", [1, 2])
def test_nothing_of_a_step_not_taken_waits_anywhere(engine, coordinates):
    """One input moves alone, so its updates wait for the other's; when the step fails, they must not."""
    flow = new_flow(coordinates)
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("both", a.concat(b))
    flow.output("joined", a.join(b, on="k"))
    flow.output("risky", a.select(q="2 DIV v"))
    with start(flow, engine) as run:
        run.insert("a", [(2, 0)])
        with pytest.raises(ExpressionError):
            run.close_input("a")
        run.discard()
        run.insert("b", [(2, 1)])
        run.close_input("a")
        run.close_inputs()
        assert [list(run.snapshot(name)) for name in ("both", "joined", "risky")] == [[(2, 1)], [], []]


def ahead(coordinates=1):
    flow = new_flow(coordinates)
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("out", a.concat(b).select(q="10 DIV v"))
    return flow


@pytest.mark.parametrize("coordinates", [1, 2])
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("way", ["correct", "discard"])
def test_a_bad_row_of_an_input_that_is_ahead_has_a_way_out(engine, way, closed, coordinates):
    """It makes a step impossible only when the other input follows: by then its time is closed."""
    first, second = (0, 1) if coordinates == 1 else ((0, 0), (1, 1))
    with start(ahead(coordinates), engine) as run:
        run.insert("a", [(1, 0), (1, 5)], time=first)
        run.insert("b", [(2, 10)], time=first)
        if closed:
            run.close_input("a")
        else:
            run.advance_to(second, input="a")
        with pytest.raises(TimeError, match="it is final"):
            run.delete("a", [(1, 0)], time=first)
        with pytest.raises(ExpressionError, match="division by zero"):
            run.advance_to(second, input="b")
        if way == "correct":
            run.delete("a", [(1, 0)], time=first)
            run.advance_to(second, input="b")
            assert list(run.changes("out")) == [((1,), first, 1), ((2,), first, 1)]
        else:
            run.discard()
            run.insert("a", [(1, 2)], time=first)
            run.advance_to(second, input="b")
            assert list(run.changes("out")) == [((5,), first, 1)]
        with pytest.raises(TimeError, match="it is final"):  # now an output shows it
            run.delete("a", [(1, 5)], time=first)


def test_what_an_output_shows_cannot_be_corrected(engine):
    flow = ahead()
    flow.output("a", flow.input("c", KV))
    with start(flow, engine) as run:
        run.insert("c", [(1, 1)])
        run.insert("a", [(1, 0)])
        run.advance_to(1, input="a")
        run.advance_to(1, input="c")
        with pytest.raises(ExpressionError):
            run.advance_to(1, input="b")
        with pytest.raises(TimeError, match="it is final"):
            run.delete("c", [(1, 1)], time=0)
        run.discard()
        run.advance_to(1, input="b")
        assert list(run.snapshot("a")) == [(1, 1)]
        assert list(run.snapshot("out")) == []


def test_a_bad_row_of_a_keyed_input_that_is_ahead_is_written_over(engine):
    flow = new_flow()
    flow.output("out", flow.input("a", KV, key="k").concat(flow.input("b", KV)).select(q="10 DIV v"))
    with start(flow, engine) as run:
        run.upsert("a", [(1, 0)])
        run.advance_to(2, input="a")
        with pytest.raises(ExpressionError):
            run.advance_to(1, input="b")
        run.upsert("a", [(1, 5)], time=0)
        run.advance_to(1, input="b")
        assert list(run.changes("out")) == [((2,), 0, 1)]


def test_a_bad_row_that_was_delayed_can_be_corrected(engine):
    """The delayed rows of time 0 meet those of time 2: until an output shows that time, they wait at their input."""
    flow = new_flow()
    a, b = flow.input("a", KV), flow.input("b", KV)
    flow.output("out", a.delay(2).concat(b).select(q="10 DIV v"))
    with start(flow, engine) as run:
        run.insert("a", [(1, 0)])
        run.advance_to(1)
        with pytest.raises(ExpressionError):
            run.advance_to(3)
        run.delete("a", [(1, 0)], time=0)
        run.advance_to(3)
        assert list(run.changes("out")) == []
