"""Counts that 64 bits do not hold are refused, by every operator that adds or multiplies them; those that fit are right."""

from __future__ import annotations

import pytest
from running import start

import tidemill as tm
from tidemill.errors import CountOverflowError, StepError

KEY = {"k": "int64"}


def _doubling(**limits):
    """A row's count doubles in each iteration."""
    flow = tm.Dataflow("doubling")
    flow.output("out", flow.input("x", KEY).iterate(lambda c: c.concat(c), **limits))
    return flow


def test_a_loop_that_never_settles_is_an_error_when_its_counts_overflow(engine):
    with start(_doubling(), engine) as run:
        run.insert("x", [(1,)])
        with pytest.raises(CountOverflowError, match="beyond 2\\*\\*63 - 1"):
            run.advance()
        run.discard()
        run.advance()
        assert dict(run.snapshot("out").counts()) == {}


@pytest.mark.parametrize("sign", [1, -1])
def test_a_loop_with_a_limit_gives_the_largest_counts_that_fit(engine, sign):
    with start(_doubling(return_at=62), engine) as run:
        run.update("x", [((1,), 0, sign)])
        run.advance()
        assert dict(run.snapshot("out").counts()) == {(1,): sign * 2**62}
    with start(_doubling(return_at=63), engine) as run:
        run.update("x", [((1,), 0, sign)])
        with pytest.raises(CountOverflowError):
            run.advance()


def test_counts_that_overflow_over_several_steps_are_refused(engine):
    with start(_doubling(return_at=62), engine) as run:
        for sign in (1, -1, 1):
            run.insert("x", [(1,)]) if sign > 0 else run.delete("x", [(1,)])
            run.advance()
        assert dict(run.snapshot("out").counts()) == {(1,): 2**62}
        run.insert("x", [(1,)])
        with pytest.raises(CountOverflowError):
            run.advance()


@pytest.mark.parametrize(
    "build",
    [
        lambda c: c.concat(c, c, c).consolidate(),
        lambda c: c.concat(c, c, c).distinct(),
        lambda c: c.concat(c, c, c).group_by("k").agg(n=tm.count()),
        lambda c: c.concat(c, c, c).join(c, on="k"),
        lambda c: c.join(c, on="k"),
        lambda c: c.concat(c).group_by("k").top_k(2, order_by="k"),
    ],
    ids=["consolidate", "distinct", "count", "join_of_more", "join", "top_k"],
)
def test_operators_refuse_sums_and_products_of_large_counts(build):
    flow = tm.Dataflow("large")
    c = flow.input("x", KEY).iterate(lambda c: c.concat(c), return_at=62)
    flow.output("out", build(c))
    with flow.start() as run:
        run.insert("x", [(1,)])
        with pytest.raises(StepError, match=r"beyond 2\*\*(63|31)"):
            run.advance()


def test_counts_beyond_what_joins_take_are_right_where_they_are_only_added(engine):
    flow = tm.Dataflow("products")
    one = flow.input("x", KEY)
    pairs = one.join(one, on="k")
    flow.output("distinct", pairs.distinct())
    flow.output("pairs", pairs)
    with start(flow, engine) as run:
        run.update("x", [((1,), 0, 2**31)])
        run.advance()
        assert dict(run.snapshot("pairs").counts()) == {(1,): 2**62}
        assert list(run.snapshot("distinct")) == [(1,)]


@pytest.mark.parametrize("where", ["j + 0 < j_right", "j < j_right"])
@pytest.mark.parametrize("on", [[], "k"])
def test_rows_of_one_key_with_large_counts_are_not_added_up(engine, on, where):
    """What is kept to be looked up by key, each row of it counted once."""
    flow = tm.Dataflow("products")
    schema = {"k": "int64", "j": "int64"}
    one, other = flow.input("x", schema), flow.input("other", schema)
    many = one.join(one, on=["k", "j"])
    flow.output("many", many)
    flow.output("out", many.join(other, on=on, where=where))
    with start(flow, engine) as run:
        run.update("x", [((1, j), 0, 2**31) for j in range(3)])
        run.advance()
        assert dict(run.snapshot("many").counts()) == {(1, j): 2**62 for j in range(3)}
        assert list(run.snapshot("out")) == []
