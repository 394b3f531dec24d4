"""Where dataflows have conditions: each place with the rows, or pairs of rows, that reach a condition there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from support.guards import COLUMNS, Failed, Tree, meaning, text_of

import tidemill as tm
from tidemill.algorithms import combine
from tidemill.algorithms.prefix_sums.prefix_sum import prefix_sum

OTHER = {"j": "int64", "d": "int64"}
Rows = list[tuple[Any, ...]]


def pairs(rows: Rows, others: Rows) -> Iterator[tuple[Any, ...]]:
    """Pairs with equal keys, NULL being equal to nothing."""
    return (r for r, (j, _) in itertools.product(rows, others) if r[0] is not None and r[0] == j)


def every(rows: Rows, _others: Rows) -> Iterator[tuple[Any, ...]]:
    return iter(rows)


def products(rows: Rows, others: Rows) -> Iterator[tuple[Any, ...]]:
    return (r for r, _ in itertools.product(rows, others))


def near(rows: Rows, others: Rows) -> Iterator[tuple[Any, ...]]:
    """Pairs with equal keys for which `a < d` does not decide."""
    found = (r for r, (j, d) in itertools.product(rows, others) if r[0] == j and not (r[1] and d and r[1] >= d))
    return (r for r in found if r[0] is not None)


def least(rows: Rows, _others: Rows) -> Iterator[tuple[Any, ...]]:
    return (r for r in rows if not r[1])


def marked(rows: Rows, _others: Rows) -> Iterator[tuple[Any, ...]]:
    return (r for r in rows if r[3] is True)


def joined(how: str) -> Callable[..., Any]:
    return lambda x, y, text: x.join(y, on={"k": "j"}, how=how, where=text)


W = tm.Window.partition_by("k").order_by("a", "b", "p", "s")
PLACES: dict[str, tuple[Callable[..., Any], Callable[[Rows, Rows], Iterator[tuple[Any, ...]]]]] = {
    "filter": (lambda x, y, text: x.filter(text), every),
    "filter behind a filter": (lambda x, y, text: x.filter("p").filter(text), marked),
    "filter before a filter": (lambda x, y, text: x.filter(text).filter("p"), every),
    "filter behind a map": (lambda x, y, text: x.select("k", "a", "b", "p", "s", n="1").filter(text), every),
    "filter of a union": (lambda x, y, text: x.concat(x.filter("p")).filter(text), every),
    "filter of distinct rows": (lambda x, y, text: x.distinct().filter(text).count("n"), every),
    "filter of a join": (lambda x, y, text: x.join(y, on={"k": "j"}).filter(text).select("a", "d"), pairs),
    "filter of a left join": (lambda x, y, text: x.join(y, on={"k": "j"}, how="left").filter(text), every),
    "filter of a semijoin": (lambda x, y, text: x.semijoin(y, on={"k": "j"}).filter(text), pairs),
    "where": (joined("inner"), pairs),
    "where of a left join": (joined("left"), pairs),
    "where of a right join": (joined("right"), pairs),
    "where of a full join": (joined("full"), pairs),
    "where of a semijoin": (joined("semi"), pairs),
    "where of an antijoin": (joined("anti"), pairs),
    "where without keys": (lambda x, y, text: x.join(y, on=[], where=f"{text} and a < d"), products),
    "where in a range": (lambda x, y, text: x.join(y, on={"k": "j"}, where=f"a < d and {text}"), near),
    "filter by one row": (
        lambda x, y, text: x.cross_join(y.agg(m=tm.max("d"))).filter(f"{text} and a <= m").select("a", "b"),
        every,
    ),
    "filter behind one row": (
        lambda x, y, text: x.cross_join(y.agg(m=tm.min("d"))).filter(f"a <= m and {text}").select("a", "b"),
        least,
    ),
    "FILTER of what may fail": (
        lambda x, y, text: x.group_by("k").agg(
            l=tm.list("a div b", order_by=["a % b", "s"]).filter(f"b <> 0 and {text}"), n=tm.sum("a div b").filter(f"{text} and b <> 0"),
            f=tm.last("a div b", order_by=["a", "b"]).filter(f"b <> 0 and {text}"), d=tm.count_distinct("a / b").filter("b <> 0"),
        ),
        every,
    ),
    "windows of what may fail": (
        lambda x, y, text: x.distinct().with_columns(
            l=tm.list("a div b").filter(f"b <> 0 and {text}").over(W), n=tm.max("a div b").filter(f"b <> 0 and {text}").over(W),
            w=tm.list("a div b").filter(f"b <> 0 and {text}").over(tm.Window.partition_by("k")),
        ),
        every,
    ),
    "prefix sums of what may fail": (
        lambda x, y, text: prefix_sum(
            x, index="a", partition_by="k", n=combine.sum("a div b").filter(f"b <> 0 and {text}"), l=combine.list("a / b").filter("b <> 0"),
        ),
        every,
    ),
    "FILTER": (
        lambda x, y, text: x.group_by("k").agg(
            n=tm.count().filter(text), s=tm.sum("a").filter(text), d=tm.count_distinct("b").filter(text),
            f=tm.first("s", order_by="a").filter(text), l=tm.list("b").filter(text),
        ),
        every,
    ),  # fmt: skip
    "an argument": (lambda x, y, text: x.group_by("k").agg(n=tm.count(f"case when {text} then a end"), o=tm.bool_or(text)), every),
    "windows": (
        lambda x, y, text: x.distinct().with_columns(
            n=tm.count().filter(text).over(W), l=tm.list("b").filter(text).over(W), f=tm.bool_and(text).over(W.rows_between(-1, 0)),
            g=tm.lag(text).over(W), w=tm.bool_or(text).over(tm.Window.partition_by("k")),
        ),
        every,
    ),
    "a column": (lambda x, y, text: x.select("a", "b", t=text), every),
    "a loop": (lambda x, y, text: x.iterate(lambda here: here.filter(text).concat(x).distinct(), error_at=20), every),
}  # fmt: skip


def flow_of(trees: dict[str, Tree]) -> Any:
    """Return a flow with a condition at each of these places, an output each."""
    flow = tm.Dataflow("test")
    x, y = flow.input("x", COLUMNS), flow.input("y", OTHER)
    for place, tree in trees.items():
        flow.output(place, PLACES[place][0](x, y, text_of(tree)))
    return flow


def has_errors(place: str, tree: Tree, rows: Rows) -> bool:
    """Return whether a condition is an error, by the definition, for any of the rows that reach it."""
    return any(isinstance(meaning(tree, row), Failed) for row in PLACES[place][1](rows, OTHERS))


def updates_of(rows: Rows, others: Rows) -> dict[str, list[Any]]:
    """Rows at several times, some of which go again."""
    x = [(row, i % 3, 1) for i, row in enumerate(rows)] + [(row, 3, -1) for row in rows[::3]]
    return {"x": x, "y": [(row, i % 2, 1) for i, row in enumerate(others)]}


OTHERS = [(1, 2), (1, 5), (2, 0), (0, None), (None, 3)]
