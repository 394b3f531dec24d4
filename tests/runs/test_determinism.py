"""User's functions that give something else each time are told of, where that is sure; and nothing else is."""

import itertools
import warnings

import pytest

import tidemill as tm
from tidemill.errors import NegativeCountError


def mapped(function, **inputs):
    flow = tm.Dataflow()
    x = flow.input("x", {"k": "int64"}, **inputs)
    flow.output("o", x.map_rows(function, {"v": "int64"}))
    return flow


def test_a_function_that_counts_its_calls_is_told_of():
    """Found by a reviewer: the row it had made stayed, and another one had the count -1; nobody was told."""
    numbers = itertools.count()

    def numbered(row):
        return (next(numbers),)

    with mapped(numbered).start() as run:
        run.insert("x", [(1,), (2,)])
        run.advance()
        run.delete("x", [(1,)])
        message = r"map_rows .*test_determinism.py:\d+\): the function '.*numbered' gives something else each time, as for row \(1,\)"
        with pytest.warns(RuntimeWarning, match=message) as told:
            run.advance()
        run.delete("x", [(2,)])
        run.advance()
        assert len(told) == 1


def test_a_function_of_what_changes_meanwhile_is_told_of_where_nothing_else_can_be_the_reason():
    today = ["monday"]

    def dated(row):
        return (row.k * 100 + len(today),)

    for inputs in ({"key": "k"}, {"unique": True}):
        with mapped(dated, **inputs).start() as run:
            run.insert("x", [(1,), (2,)])
            run.advance()
            assert len(run.snapshot("o")) == 2
            today.append("tuesday")
            run.delete("x", [(1,)])
            run.advance()
            with pytest.warns(
                RuntimeWarning, match=r"Output 'o' .*count -1, since the function '.*dated' of .* gave something else"
            ):
                run.snapshot("o")


def test_what_is_negative_for_other_reasons_is_not_told_of():
    flow = tm.Dataflow()
    x, keyed = flow.input("x", {"k": "int64"}), flow.input("keyed", {"k": "int64"}, key="k")
    flow.output("deleted", x.map_rows(lambda r: (r.k,), {"k": "int64"}))
    flow.output("negated", keyed.map_rows(lambda r: (r.k,), {"k": "int64"}).negate())
    flow.output("excepted", x.except_all(keyed.flat_map(lambda r: [r, r], {"k": "int64"})))
    flow.output("reduced", keyed.group_by("k").reduce(lambda key, rows: [(key, -1)], {"k": "int64"}))
    flow.output("looped", keyed.iterate(lambda c: c.map_rows(lambda r: (r.k,), {"k": "int64"}).negate(), return_at=3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with flow.start() as run:
            run.delete("x", [(1,)])
            run.insert("keyed", [(1,), (3,)])
            run.advance()
            run.delete("keyed", [(3,)])
            run.advance()
            for name in run.graph.outputs:
                run.snapshot(name)


@pytest.mark.parametrize("orders", [([1, 2, 2], [2, 1, 2]), ([1, 2], [2, 1])])
def test_the_order_of_what_a_function_gives_is_of_no_matter(orders):
    orders = itertools.cycle(orders)
    flow = tm.Dataflow()
    x = flow.input("x", {"k": "int64"})
    flow.output("o", x.flat_map(lambda row: [(i,) for i in next(orders)], {"v": "int64"}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with flow.start() as run:
            run.insert("x", [(1,)])
            run.advance()
            run.delete("x", [(1,)])
            run.advance()
            assert len(run.snapshot("o")) == 0


def test_a_function_is_called_again_for_a_few_rows_only():
    calls = []
    with mapped(lambda row: calls.append(row) or (row.k,)).start() as run:
        for i in range(200):
            run.insert("x", [(i,)])
            run.advance()
            run.delete("x", [(i,)])
            run.advance()
    assert len(calls) == 400 + 64


@pytest.mark.parametrize("on", [None, tm.Reference()])
def test_a_negative_count_that_is_refused_names_the_functions_before_it(on):
    flow = tm.Dataflow()
    x = flow.input("x", {"k": "int64"})

    def odd(row):
        return (row.k % 2,)

    flow.output("least", x.map_rows(odd, {"v": "int64"}).group_by("v").agg(least=tm.min("v")))
    with flow.start(on) as run:
        run.delete("x", [(1,)])
        message = (
            r"takes it away twice; or a function before it does not give the same each time .*: '.*odd' of .*map_rows"
        )
        with pytest.raises(NegativeCountError, match=message):
            run.advance()


class Doubtful:
    """A user's function that can be asked about itself, as tidemill's own can, but otherwise."""

    def __init__(self):
        self.numbers = itertools.count()

    def describe(self, language):
        raise AssertionError(language)

    def __call__(self, row):
        return (next(self.numbers),)


def test_a_users_function_that_describes_itself_is_no_function_of_ours():
    """Found by a reviewer: it was taken for a table function, and not looked at twice."""
    with mapped(Doubtful()).start() as run:
        run.insert("x", [(1,), (2,)])
        run.advance()
        run.delete("x", [(1,)])
        with pytest.warns(RuntimeWarning, match="something else each time"):
            run.advance()


def test_what_users_functions_say_of_themselves_is_not_asked_for_in_texts():
    class AtMost:
        def describe(self, language):
            raise AssertionError(language)

        def __call__(self, row, count):
            return min(count, 2)

    flow = mapped(Doubtful())
    flow.output("few", flow.input("y", {"k": "int64"}).threshold(AtMost()))
    text = flow.explain()
    assert "Doubtful" in text
    assert "Threshold" in text
