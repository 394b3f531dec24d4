"""Every pair of types, and one dataflow in which values of all those that meet do so."""

import datetime as dt
import decimal
import itertools
from collections.abc import Callable, Iterator

import tidemill as tm
from tidemill.expressions.expr import Expr

DECIMAL, WIDE, LONG = "decimal(5,2)", "decimal(12,2)", "decimal(38,18)"
VALUES = {
    "int32": 7, "int64": 2**40, "float64": 0.5, DECIMAL: decimal.Decimal("1.25"), WIDE: decimal.Decimal("1e9"),
    LONG: decimal.Decimal("1e-18"), "bool": True, "string": "a", "date": dt.date(2026, 1, 2),
    "timestamp": dt.datetime(2026, 1, 2, 3), "null": None, "list<int32>": (1, None), "list<int64>": (1,),
}  # fmt: skip
PAIRS = list(itertools.product(VALUES, repeat=2))
_MEETING = {
    ("int32", "int64"): "int64", ("int32", "float64"): "float64", ("int32", DECIMAL): "decimal(12,2)",
    ("int32", WIDE): WIDE, ("int32", LONG): LONG, ("int64", DECIMAL): "decimal(22,2)",
    ("int64", WIDE): "decimal(22,2)", ("int64", LONG): LONG, (DECIMAL, WIDE): WIDE, (DECIMAL, LONG): LONG,
    (WIDE, LONG): LONG, ("date", "timestamp"): "timestamp",
}  # fmt: skip


def held_by_both(one: str, other: str) -> str | None:
    """Return the type that holds all values of two others, if there is one."""
    if one == other or "null" in (one, other):
        return one if other == "null" else other
    return _MEETING.get((one, other), _MEETING.get((other, one)))


def one_of(flow: tm.Dataflow, dtype: str, name: str) -> tm.Collection:
    """Return an input of a column of a type; of NULL, rows with NULL in its place."""
    if dtype == "null":
        return flow.input(name, {"v": "int64"}).select(v=tm.lit(None))
    return flow.input(name, {"v": dtype})


def fed(dtype: str) -> list[tuple[tuple[object], int, int]]:
    """Return updates of an input: a value, and NULL, which goes away again."""
    return [((VALUES[dtype],), 0, 1), ((None,), 0, 2), ((None,), 1, -2)]


def meeting(flow: tm.Dataflow) -> Iterator[tuple[str, tm.Collection, tm.Collection, str | None, str | None]]:
    """Iterate over two collections for each pair of types, with the types and which both become."""
    firsts, seconds = ({t: one_of(flow, t, f"{side} {t}") for t in VALUES} for side in "ab")
    for one, other in PAIRS:
        yield f"{one} {other}", firsts[one], seconds[other], other, held_by_both(one, other)


COLLECTIONS: dict[str, Callable[[tm.Collection, tm.Collection], tm.Collection]] = {
    "concat": lambda a, b: a.concat(b),
    "except_all": lambda a, b: a.except_all(b),
    "except_distinct": lambda a, b: a.except_distinct(b),
    "intersect": lambda a, b: a.intersect(b),
}
_W = tm.Window.partition_by("w").order_by("w")
EXPRESSIONS: dict[str, Callable[[str, str], Expr]] = {
    "CASE": lambda a, b: tm.when(tm.col("w"), tm.col(a)).otherwise(tm.col(b)),
    "COALESCE": lambda a, b: tm.coalesce(a, b),
    "IN": lambda a, b: tm.col(a).isin([tm.col(b), None]),
    "LAG": lambda a, b: tm.lag(a, 1, tm.col(b)).over(_W),
    "LEAD": lambda a, b: tm.lead(a, 1, tm.col(b)).over(_W),
}


def flow_of_collections(how: str) -> tuple[tm.Dataflow, dict[str, str]]:
    """Return a dataflow that has an output for each pair of types that meet, and these outputs' types."""
    flow, types = tm.Dataflow(), {}
    for name, a, b, _, wanted in meeting(flow):
        if wanted not in (None, "null"):
            made = COLLECTIONS[how](a, b)
            flow.output(name, made)
            types[name] = str(made.schema.dtypes[0])
    return flow, types


def flow_of_values(what: str) -> tuple[tm.Dataflow, dict[str, str]]:
    """Return a dataflow of one input with a column of each type, with columns of what meets; and these columns' types."""
    flow = tm.Dataflow()
    rows = flow.input("rows", {"w": "bool", **{t: t for t in VALUES if t != "null"}}).with_columns(null=tm.lit(None))
    made = {}
    for one, other in PAIRS:
        wanted = held_by_both(one, other)
        if wanted is not None and not (wanted == "null" and what == "IN"):
            made[f"{one} {other}"] = EXPRESSIONS[what](one, other)
    found = rows.select("w", **made)
    types = {f.name: str(f.dtype) for f in found.schema if f.name != "w"}
    flow.output("out", found.drop(*(name for name, t in types.items() if t == "null")))
    return flow, types


ROWS = [
    *(((w, *(v for t, v in VALUES.items() if t != "null")), 0, 1) for w in (True, False, None)),
    ((True, *(None for t in VALUES if t != "null")), 1, 1),
]
