"""Counts that 64 bits do not hold are refused, by every operator that adds or multiplies them; those that fit are right."""

from __future__ import annotations

import pytest
from support.running import start

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


KV = {"k": "int64", "v": "int64"}
LOOKED_THROUGH = {
    "min and max": lambda c: c.agg(low=tm.min("v"), high=tm.max("v")),
    "of a condition": lambda c: c.agg(high=tm.max("v").filter("v < 9"), n=tm.count()),
    "of floats": lambda c: c.agg(low=tm.min("cast(v as double)"), mean=tm.avg("v")),
    "first and last": lambda c: c.agg(one=tm.first("v", order_by="v desc"), end=tm.last("v", order_by="v desc")),
    "different": lambda c: c.agg(n=tm.count_distinct("v"), high=tm.max("v")),
    "the first three": lambda c: c.top_k(3, order_by="v"),
    "the first many": lambda c: c.top_k(2**40, order_by="v desc"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", LOOKED_THROUGH)
@pytest.mark.parametrize("groups", [1, 600])
def test_groups_of_rows_that_are_there_more_than_2_31_times_in_one_step(case, groups):
    """They were refused where the rows of one step had such a count, and taken where several steps came to it."""
    flow = tm.Dataflow("large")
    flow.output("out", LOOKED_THROUGH[case](flow.input("x", KV).group_by("k")))
    many = [((k, v), 0, 2**31) for k in range(groups) for v in (5, 7) for _ in range(3)]
    more = [((k, 9), 0, 1) for k in range(groups)]
    fewer = [((k, 5), 1, -(2**31)) for k in range(groups) for _ in range(3)]
    found = []
    for engine in (tm.Reference(), tm.Embedded()):
        with flow.start(engine) as run:
            run.update("x", many + more + fewer)
            run.advance_to(2)
            first = sorted(run.changes("out"), key=repr)
            run.update("x", [((0, 7), 2, -(2**31))] * 3)
            run.advance_to(3)
            found.append((first, sorted(run.changes("out"), key=repr)))
    assert found[0] == found[1]
    assert found[0][0] != []


@pytest.mark.parametrize("pick", ["v", "v desc"])
@pytest.mark.parametrize("rows", [3, 3000])
def test_the_first_of_more_copies_than_2_40(pick, rows):
    """Of a large group at most 2**40 were given."""
    flow = tm.Dataflow("large")
    flow.output("out", flow.input("x", KV).group_by("k").top_k(2**42 + 1, order_by=pick))
    found = []
    for engine in (tm.Reference(), tm.Embedded()):
        with flow.start(engine) as run:
            run.update("x", [((1, v), 0, 2**31) for v in range(rows)])
            run.advance()
            found.append(dict(run.snapshot("out").counts()))
    assert found[0] == found[1]
    assert sum(found[1].values()) == min(rows * 2**31, 2**42 + 1)


@pytest.mark.parametrize("build", [lambda c: c.agg(m=tm.max("v")), lambda c: c.top_k(3, order_by="v")])
def test_groups_refuse_a_row_that_is_there_more_than_2_63_times_after_several_steps(engine, build):
    flow = tm.Dataflow("large")
    x = flow.input("x", KV)
    flow.output("out", build(x.join(x.select("k", w="v"), on="k").select("k", "v").group_by("k")))
    with start(flow, engine) as run:
        run.update("x", [((1, 5), 0, 2**31)])
        run.advance()
        before = list(run.snapshot("out"))
        run.update("x", [((1, 5), 1, 2**30)])
        with pytest.raises(CountOverflowError):
            run.advance()
        run.discard()
        run.advance()
        assert list(run.snapshot("out")) == before


@pytest.mark.slow
@pytest.mark.parametrize("most", [2**63 - 1, 2**62 + 5, 2**62])
@pytest.mark.parametrize("rows", [3, 3000])
def test_the_first_of_rows_whose_counts_come_to_more_than_64_bits(engine, most, rows):
    flow = tm.Dataflow("large")
    x = flow.input("x", KV)
    flow.output("out", x.join(x, on=["k", "v"]).group_by("k").top_k(most, order_by="v"))
    with start(flow, engine) as run:
        run.update("x", [((k, v), 0, 2**31) for k in range(2) for v in range(rows)])
        run.advance()
        counts = {v: n for v, n in enumerate((2**62, most - 2**62)) if n}
        assert dict(run.snapshot("out").counts()) == {(k, v): n for k in range(2) for v, n in counts.items()}
