"""Growing random dataflows: each operator takes collections that are there and adds one.

Rows stay among few, so that they meet and nothing explodes: whatever is computed is brought back to ``(k, v)`` with
small values. A collection is noted with whether its counts can be negative, and how large they can be.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
from hypothesis import strategies as st

from tidemill.collections.collection import Collection
from tidemill.collections.delta_joins import join_all
from tidemill.expressions import aggregate_functions as agg
from tidemill.expressions.expr import col, lit
from tidemill.expressions.functions.lists import size
from tidemill.expressions.sort_keys import desc
from tidemill.expressions.sql_text import expr
from tidemill.flow import Dataflow
from tidemill.testing.random_aggregates import ORDERS, some_aggregates, some_window_call

SCHEMA: Final = {"k": "int64", "v": "int64"}
WIDE: Final = {
    "k": "int64", "f": "float64", "s": "string", "d": "decimal(6,2)", "b": "bool", "l": "list<float64>",
}  # fmt: skip
MOST: Final = 10**6
"""Counts that may become larger are cut down before they are multiplied, so that 64 bits hold all products."""
LIST_MOST: Final = 200
"""Rows of larger counts are not put into lists as often as they are there."""
LOOP_LIMIT: Final = 30


@attrs.frozen(repr=False)
class Case:
    """A dataflow and updates for its inputs."""

    flow: Dataflow
    updates: Mapping[str, Sequence[tuple[Any, Any, int]]]

    def __repr__(self) -> str:
        lines = [f"{name}: {list(found)}" for name, found in self.updates.items()]
        return "\n".join(["", self.flow.explain(), *lines])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        del cycle
        printer.text(repr(self))


@attrs.frozen
class Plant:
    """A collection of ``(k, v)`` rows, whether its counts are never negative, and how large they may be."""

    rows: Collection
    positive: bool
    most: int

    def like(self, rows: Collection) -> Plant:
        return attrs.evolve(self, rows=rows)

    def distinct(self) -> Plant:
        return Plant(self.rows.distinct(), positive=True, most=1)


class Growth:
    """A dataflow being grown at random."""

    def __init__(self, draw: st.DrawFn, coordinates: int, *, loops: bool) -> None:
        self.draw = draw
        self.coordinates = coordinates
        names = ["epoch"] if coordinates == 1 else [f"t{i}" for i in range(coordinates)]
        self.flow = Dataflow("random", time=names)
        self.non_negative = draw(st.sampled_from([True, True, True, False]))
        self._loops = loops
        self._pool = [Plant(self.flow.input(name, SCHEMA), self.non_negative, 50) for name in ("a", "b")]
        self._wide: Collection | None = None
        self._outputs = 0

    def grow(self) -> None:
        """Add an operator, of any kind."""
        kinds: list[Grower] = [grow_simple, grow_simple, grow_any, grow_any, grow_aggregate, grow_aggregate, grow_wide]
        kinds += [grow_compared, grow_compared]
        kinds += [grow_iterate, grow_letrec] if self._loops else []
        grown = self.pick(kinds)(self, self._pool, 0)
        if grown is not None:
            self._pool.append(grown)

    def finished(self) -> Dataflow:
        """Return the dataflow, the last collections named as outputs."""
        for plant in self._pool[-3:]:
            self.output(plant.rows)
        self.flow.graph.freeze()
        return self.flow

    def output(self, rows: Collection) -> None:
        """Name a collection as the next output."""
        self.flow.output(f"out{self._outputs}", rows)
        self._outputs += 1

    def pick(self, options: Sequence[Any]) -> Any:
        """Return one of the options."""
        return self.draw(st.sampled_from(options))

    def wide(self) -> Collection:
        """Return the input with columns of many types."""
        if self._wide is None:
            self._wide = self.flow.input("wide", WIDE)
        return self._wide

    def positive(self, plant: Plant) -> Plant:
        """Return the collection, or where it may have negative counts, mostly its distinct rows."""
        if plant.positive or self.draw(st.integers(0, 15)) == 0:
            return plant
        return plant.distinct()

    def small(self, plant: Plant, most: int = MOST) -> Plant:
        """Return the collection, or where its counts may be larger than this, its distinct rows."""
        return plant.distinct() if plant.most > most else plant


Pool = Sequence[Plant]
Grower = Callable[[Growth, Pool, int], "Plant | None"]


# Operators that keep what is monotone monotone, on non-negative counts: allowed in loops without a limit.

MAPS: Final = (
    {"k": "v", "v": "k"},
    {"k": "k", "v": "(v + 1) % 4"},
    {"k": "coalesce(v, 0)", "v": "k"},
    {"k": "(k + v) % 3", "v": "v"},
    {"k": "k", "v": "CASE WHEN v > 1 THEN k END"},
    {"k": "least(k, v)", "v": "greatest(k, v)"},
)
PREDICATES: Final = ("v > 0", "k = v", "k IS NOT NULL", "k < 2 OR v IS NULL", "NOT k = 1", "v IN (0, 2)")


def _halves(row: Any) -> Any:
    return [] if row.v is None else [(row.k, row.v // 2), (row.v, row.v // 2)][: 1 + row.v % 2]


def _nothing(_row: Any, _time: Any, _diff: int) -> None:
    pass


def grow_simple(growth: Growth, pool: Pool, _depth: int) -> Plant:
    plant: Plant = growth.pick(pool)
    rows = plant.rows
    made: Callable[[], Plant] = growth.pick(
        [
            lambda: plant.like(rows.select(**growth.pick(MAPS))),
            lambda: plant.like(rows.filter(growth.pick(PREDICATES))),
            lambda: plant.like(rows.map_rows(lambda row: (row.v, row.k), SCHEMA)),
            lambda: attrs.evolve(plant, rows=rows.flat_map(_halves, SCHEMA), most=plant.most * 4),
            plant.distinct,
            lambda: plant.like(rows.consolidate()),
            lambda: plant.like(rows.arrange_by(growth.pick(["k", "v"]))),
            lambda: plant.like(rows.inspect(_nothing)),
            lambda: _concat(plant, growth.pick(pool)),
            lambda: _inner_join(growth, plant, growth.pick(pool)),
            lambda: _inner_join(growth, plant, growth.pick(pool)),
            lambda: plant.like(rows.semijoin(growth.pick(pool).rows, on=growth.pick(JOIN_KEYS))),
            lambda: Plant(rows.intersect(growth.pick(pool).rows), positive=True, most=1),
        ]
    )
    return made()


JOIN_KEYS: Final[tuple[Any, ...]] = ("k", {"v": "k"}, {"k": "v"}, ["k", "v"])


def _concat(one: Plant, other: Plant) -> Plant:
    return Plant(one.rows.concat(other.rows), one.positive and other.positive, one.most + other.most)


def _inner_join(growth: Growth, one: Plant, other: Plant) -> Plant:
    one, other = growth.small(one), growth.small(other)
    on = growth.pick([{"v": "k"}, {"v": "k"}, {"k": "v"}])
    joined = one.rows.join(other.rows, on=on, nulls_equal=growth.pick([False, True]))
    found = joined.select("k", v=next(n for n in joined.schema.names if n.endswith("_right")))
    return Plant(found, one.positive and other.positive, one.most * other.most * 40)


# All others, outside of loops or in loops with a limit.


def _count_half(_row: Any, count: int) -> int:
    return count // 2


def _count_back(_row: Any, count: int) -> int:
    return -count if count > 1 else count


def _smallest(key: Any, rows: Any) -> Any:
    return [((*key, next((v for (v,), _ in rows if v is not None), None)), 1)]


def _by_count(key: Any, rows: Any) -> Any:
    for (value,), count in rows:
        if count > 1:
            yield (*key, value), count - 1
    yield (None, len(rows) % 4), -1


def _how_often(key: Any, rows: Any) -> Any:
    return [((key[0], sum(count for _, count in rows) % 4), 1)]


def _even(time: Any) -> Any:
    """Move to the next even time, in the first coordinate."""
    return (time[0] + time[0] % 2, *time[1:]) if isinstance(time, tuple) else time + time % 2


def grow_any(growth: Growth, pool: Pool, _depth: int) -> Plant:
    plant: Plant = growth.pick(pool)
    rows = plant.rows
    made: Callable[[], Plant] = growth.pick(
        [
            lambda: Plant(rows.negate(), positive=False, most=plant.most),
            lambda: attrs.evolve(_concat(plant, _negated(growth.pick(pool))), positive=False),
            lambda: Plant(rows.threshold(growth.pick([_count_half, _count_back])), positive=False, most=plant.most),
            lambda: Plant(rows.count("n").select("k", v="(coalesce(v, 0) + n) % 4"), positive=True, most=9),
            lambda: _user_reduce(growth, plant),
            lambda: _delay(growth, plant),
            lambda: _temporal_filter(growth, plant),
            lambda: _outer_join(growth, plant, growth.pick(pool)),
            lambda: _delta_join(growth, plant, growth.pick(pool), growth.pick(pool)),
            lambda: _outer_join(growth, plant, growth.pick(pool)),
            lambda: plant.like(rows.antijoin(growth.pick(pool).rows, on=growth.pick(JOIN_KEYS))),
            lambda: Plant(rows.except_all(growth.pick(pool).rows), positive=True, most=plant.most * 2),
            lambda: Plant(rows.except_distinct(growth.pick(pool).rows), positive=True, most=1),
            lambda: _concat(plant, Plant(growth.flow.constant(SCHEMA, [(1, 2), (0, None), (1, 2)]), True, 2)),
            lambda: plant.like(rows.select("k", v=growth.pick(["v", "2 DIV v", "v"]))),
        ]
    )
    return made()


def _negated(plant: Plant) -> Plant:
    return plant.like(plant.rows.negate())


def grow_aggregate(growth: Growth, pool: Pool, _depth: int) -> Plant:
    grow: Callable[[Growth, Plant], Plant] = growth.pick(
        [_aggregate, _aggregate, _aggregate, _top_k, _total, _windowed]
    )
    return grow(growth, growth.pick(pool))


def _aggregate(growth: Growth, plant: Plant) -> Plant:
    positive = growth.pick([True, True, False])
    source = growth.small(growth.positive(plant), LIST_MOST) if positive else plant
    aggregates, number = some_aggregates(growth.pick, positive=positive)
    keys = growth.pick([("k",), ("k",), ("v",), ("k", "v"), ()])
    if keys:
        found = source.rows.group_by(*keys).agg(**aggregates).select(k=keys[0], v=expr(number))
    else:
        found = source.rows.agg(**aggregates).select(k=lit(1), v=expr(number))
    return Plant(found, positive=True, most=9)


def _top_k(growth: Growth, plant: Plant) -> Plant:
    source = growth.positive(plant)
    keys = growth.pick([("k",), ("v",), ()])
    found = source.rows.group_by(*keys).top_k(growth.pick([1, 2, 3]), order_by=growth.pick(ORDERS))
    return Plant(found, positive=True, most=3)


def _windowed(growth: Growth, plant: Plant) -> Plant:
    source = growth.small(growth.positive(plant), LIST_MOST)
    found = source.rows.with_columns(w=some_window_call(growth.pick))
    wanted = growth.pick([None, None, "w <= 2", "w = 1"])
    found = (found if wanted is None else found.filter(wanted)).select("k", v="w % 4")
    return Plant(found, positive=True, most=LIST_MOST * 9)


def _total(growth: Growth, plant: Plant) -> Plant:
    found = growth.positive(plant).rows.agg(n=agg.count(), top=agg.max("v")).select(k="n % 3", v="top")
    return Plant(found, positive=True, most=1)


def _user_reduce(growth: Growth, plant: Plant) -> Plant:
    function, keys = growth.pick(
        [(_smallest, ["k"]), (_by_count, ["k"]), (_how_often, ["v"]), (_how_often, ["v", "k"])]
    )
    found = growth.positive(plant).rows.group_by(*keys).reduce(function, SCHEMA)
    return Plant(found, positive=function is not _by_count, most=plant.most + 40)


def _delay(growth: Growth, plant: Plant) -> Plant:
    steps = growth.draw(st.lists(st.integers(0, 2), min_size=growth.coordinates, max_size=growth.coordinates))
    by: Any = steps[0] if growth.coordinates == 1 else tuple(steps)
    return plant.like(plant.rows.delay(growth.pick([by, _even])))


def _temporal_filter(growth: Growth, plant: Plant) -> Plant:
    coordinate = growth.pick(growth.flow.graph.coordinates)
    begin, end = growth.pick([("v", "v + 2"), (None, "v"), ("v", None), ("v - 1", "k + v")])
    return plant.like(plant.rows.temporal_filter(begin, end, coordinate=coordinate))


def _outer_join(growth: Growth, one: Plant, other: Plant) -> Plant:
    one, other = growth.small(one), growth.small(other)
    how = growth.pick(["inner", "left", "right", "full", "semi", "anti"])
    on = growth.pick(["k", {"v": "k"}, {"k": "v"}])
    left, right = one.rows, other.rows.rename({"k": "k2", "v": "v2"})
    pairs = {l: f"{r}2" for l, r in (on.items() if isinstance(on, dict) else [(on, on)])}
    where = growth.pick([None, None, "v > 0 OR v2 IS NULL" if on == "k" else "k < 2"])
    joined = left.join(right, on=pairs, how=how, where=where, nulls_equal=growth.pick([False, True]))
    last = joined.schema.names[-1]
    positive = one.positive and other.positive and how == "inner"
    return Plant(joined.select("k", v=last), positive, one.most * other.most * 40)


def _delta_join(growth: Growth, *plants: Plant) -> Plant:
    one, other, third = map(growth.small, plants)
    paths = [one.rows, other.rows.rename({"k": "v", "v": "w"}), third.rows.rename({"k": "w", "v": "x"})]
    stars = [one.rows, other.rows.rename({"v": "w"}), third.rows.rename({"v": "x"})]
    rows, on = growth.pick([(paths, ["v", "w"]), (stars, ["k"]), (stars, ["k", ("v", "x")])])
    joined = join_all(rows, on=on, nulls_equal=growth.pick([False, True]))
    positive = one.positive and other.positive and third.positive
    return Plant(joined.select("k", v="w"), positive, one.most * other.most * third.most * 200)


# Comparisons with other collections, which passes make something else of.

COMPARISONS: Final = ("<", "<=", ">", ">=", "<", "<=", ">", ">=", "=", "<>")


def grow_compared(growth: Growth, pool: Pool, depth: int) -> Plant:
    grown: Plant = growth.pick([_join_by_range, _join_by_range, _dynamic_filter])(
        growth, growth.pick(pool), growth.pick(pool)
    )
    if not depth:
        growth.output(grown.rows)  # whatever comes of it
    return grown


def _dynamic_filter(growth: Growth, plant: Plant, other: Plant) -> Plant:
    """Return rows that compare with one row, as a dynamic filter or as the cross join that passes make one of."""
    one = growth.positive(other).rows.agg(n=agg.count(), top=agg.max("v")).select(n="n % 3", top="top")
    how, further = growth.pick(COMPARISONS), growth.pick([(), (), (("k", ">=", "n"),), (("k", "<>", "n"),)])
    conditions = [("v", how, "top"), *further]
    if growth.pick([False, True]):
        return plant.like(plant.rows.dynamic_filter(conditions, one))
    where = " AND ".join(map(" ".join, conditions))
    return plant.like(plant.rows.cross_join(one).filter(where).select("k", "v"))


def _join_by_range(growth: Growth, one: Plant, other: Plant) -> Plant:
    """Return rows joined with others, or with themselves, of which a column is less or greater than one of theirs."""
    one, other = growth.small(growth.pick([one, _moved(one)])), growth.small(growth.pick([other, one]))
    left, right = one.rows, other.rows.rename({"k": "k2", "v": "v2"})
    on = growth.pick([{}, {"k": "k2"}, {"v": "k2"}, {"k": "v2"}, {"k": "k2", "v": "v2"}])
    compared = [name for name in ("v2", "k2") if name not in on.values()] or ["v"]
    where = f"{growth.pick(['v', 'k'])} {growth.pick(COMPARISONS)} {growth.pick(compared)}"
    where += growth.pick(["", "", " AND k < 2", " AND k IS DISTINCT FROM v"])
    how = growth.pick(["inner", "inner", "left", "semi", "anti"])
    if how == "inner" and not on:
        joined = left.cross_join(right).filter(where)
    else:
        joined = left.join(right, on=on, how=how, where=where, nulls_equal=growth.pick([False, True]))
    positive = one.positive and other.positive and how == "inner"
    return Plant(joined.select("k", v=joined.schema.names[-1]), positive, one.most * other.most * 40)


def _moved(plant: Plant) -> Plant:
    return plant.like(plant.rows.select("k", v="(v + 1) % 4"))


# Rows of many types: mostly for outputs of their own, compared to the last bit.


def _shown(key: Any, rows: Any) -> Any:
    return [((*key, repr(rows)), 1)]


def grow_wide(growth: Growth, pool: Pool, _depth: int) -> Plant | None:
    wide = growth.wide()
    steady = wide if growth.non_negative else wide.distinct()
    made: Callable[[], Collection] = growth.pick(
        [
            lambda: wide.group_by(growth.pick(["k", "s", "b"])).agg(f=agg.sum("f"), g=agg.avg("f"), n=agg.count("f")),
            lambda: steady.group_by(growth.pick(["k", "s"])).agg(f=agg.min("f"), g=agg.max("f"), t=agg.max("s")),
            lambda: wide.group_by("k").agg(d=agg.sum("d"), e=agg.avg("d"), n=agg.count().filter("b"), m=agg.sum("k")),
            lambda: wide.agg(f=agg.sum("f"), d=agg.avg("d"), g=agg.avg("f").filter("b")),
            lambda: wide.group_by("f").agg(n=agg.count()),
            wide.distinct,
            lambda: wide.join(wide.select("f", t="s"), on="f"),
            lambda: wide.join(wide.select("s", "d"), on=["s"], how="full", nulls_equal=True, where="d >= 0"),
            lambda: steady.group_by("k").reduce(_shown, {"k": "int64", "rows": "string"}),
            lambda: wide.select("s", g="f * 2 - 1", e="d * d", t="concat(s, 'x')"),
            lambda: wide.group_by("k").agg(v=agg.variance("f"), s=agg.stddev("d").filter("b"), b=agg.bool_and("b")),
            lambda: wide.group_by("b").agg(n=agg.count_distinct("l"), f=agg.count_distinct("f"), o=agg.bool_or("b")),
            lambda: steady.group_by("k").agg(
                f=agg.list("f"),
                s=agg.list("s", order_by=desc("f")).filter("b"),
                n=agg.sum("d"),
                m=agg.count_distinct("s"),
            ),
            lambda: steady.agg(
                l=agg.list("l"), s=agg.list("s", order_by=["d", desc("l")]), low=agg.min("l"), n=agg.count()
            ),
            lambda: steady.group_by("s").agg(
                x=agg.first("d", order_by="f"),
                y=agg.last("s", order_by=desc("l")),
                z=agg.first("l", order_by=["b", "d"]).filter("f > 0"),
                h=agg.max("l"),
            ),
            lambda: steady.group_by("k").agg(l=agg.list("s")).join(steady.group_by("b").agg(l=agg.list("s")), on="l"),
            lambda: steady.group_by("b").agg(l=agg.list("l", order_by="f")).select("l", n=size(col("l"))).distinct(),
            lambda: wide.group_by("l").agg(n=agg.count(), s=agg.sum("f")),
            lambda: wide.join(wide.select("l", t="s"), on="l", nulls_equal=True, where="k >= 0"),
            lambda: steady.group_by("k").top_k(2, order_by=[desc("l"), "f"]),
            lambda: wide.filter("size(l) > 0").select("l", h="xxhash64(l, s)", g="get(l, 0)"),
        ]
    )
    growth.output(made())
    del pool
    return Plant(wide.select("k", v="cast(length(s) as bigint)"), growth.non_negative, 50)


# Loops.


def grow_iterate(growth: Growth, pool: Pool, depth: int) -> Plant:
    start = growth.small(growth.pick(pool))
    if growth.pick(["settles", "limited"]) == "limited":
        return _limited_iterate(growth, start, pool, depth)
    return _settling(growth, start if start.positive else start.distinct(), pool, depth)


def _settling(growth: Growth, start: Plant, pool: Pool, depth: int) -> Plant:
    """Return a loop that settles."""

    def body(here: Collection) -> Collection:
        grown = _grown(growth, [Plant(here, True, 50)], _steady(pool), depth + 1, limited=False)
        return grown.rows.concat(start.rows).distinct()

    return Plant(start.rows.iterate(body, error_at=LOOP_LIMIT), positive=True, most=max(start.most, 1))


def _limited_iterate(growth: Growth, start: Plant, pool: Pool, depth: int) -> Plant:
    limit = growth.pick([{"return_at": n} for n in (1, 2, 3)] + [{"error_at": 3}])

    def body(here: Collection) -> Collection:
        grown = _grown(growth, [Plant(here, False, 1000)], pool, depth + 1, limited=True)
        return grown.rows.distinct() if grown.most > 1000 else grown.rows  # noqa: PLR2004 - what it assumes of itself

    return Plant(start.rows.iterate(body, **limit), positive=False, most=1000)


def grow_letrec(growth: Growth, pool: Pool, depth: int) -> Plant:
    limited = growth.pick([False, True])
    limit = growth.pick([{"return_at": n} for n in (1, 2, 3)]) if limited else {"error_at": LOOP_LIMIT}
    names = growth.pick([("p",), ("p", "q"), ("p", "q")])
    with growth.flow.letrec(**limit) as block:
        handles = [block.declare(name, SCHEMA) for name in names]
        for name in names:
            bindings = [*handles, block.previous(growth.pick(names))]
            inside = [Plant(b, not limited, 1000) for b in bindings]
            grown = _grown(growth, inside, pool if limited else _steady(pool), depth + 1, limited=limited)
            base = growth.pick(pool).rows if limited else growth.pick(_steady(pool)).rows
            value = grown.rows.concat(base)
            block.define(name, value.distinct() if grown.most > 900 or not limited else value)  # noqa: PLR2004
    found = functools.reduce(operator.add, [[block[name]] for name in names])
    return Plant(growth.pick(found), positive=not limited, most=2000)


def _steady(pool: Pool) -> list[Plant]:
    return [p if p.positive else p.distinct() for p in pool]


def _grown(growth: Growth, inside: Pool, outside: Pool, depth: int, *, limited: bool) -> Plant:
    """Return what a few operators make of a loop's own collections and those around it."""
    kinds: list[Grower] = [grow_simple, grow_simple, grow_simple]
    kinds += [grow_any, grow_any, grow_aggregate, grow_aggregate, grow_compared] if limited else []
    kinds += [_nested] if depth <= 2 else []  # noqa: PLR2004 - loops in loops in loops are deep enough
    pool = [*inside, *inside, *outside]
    for _ in range(growth.draw(st.integers(1, 3))):
        grown = growth.pick(kinds)(growth, pool, depth)
        pool = [*pool, grown, grown]
    return pool[-1]


def _nested(growth: Growth, pool: Pool, depth: int) -> Plant:
    """Return a loop inside a loop. It settles, so that it may stand in a loop that has to settle."""
    return _settling(growth, growth.pick(_steady(pool)), pool, depth)
