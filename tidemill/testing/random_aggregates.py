"""Random aggregates and window calls of ``(k, v)`` rows, and what brings each back to a small number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tidemill.expressions import aggregate_functions as agg
from tidemill.expressions import composed_aggregates as composed
from tidemill.expressions.aggregate_functions import Aggregate
from tidemill.expressions.composed_aggregates import Composition
from tidemill.expressions.sort_keys import asc, desc
from tidemill.expressions.windows import functions
from tidemill.expressions.windows.calls import WindowCall
from tidemill.expressions.windows.frames import UNBOUNDED
from tidemill.expressions.windows.specification import Window

Pick = Callable[[Sequence[Any]], Any]

ORDERS: Final[tuple[Any, ...]] = (
    "v", desc("v"), asc("v", nulls="last"), desc("v", nulls="first"), [asc("k", nulls="last"), desc("v")], "k % 2",
    [desc("v % 2", nulls="first"), "k"],
)  # fmt: skip
CONDITIONS: Final = (None, None, "v > 0", "k < 2 OR v IS NULL", "v IN (0, 2)", "k = v")

# A function of `pick` to an aggregate, and to a small whole number from what it gives, called `#`.
_NUMBER: Final = "CASE WHEN isnan(cast(# as double)) THEN 3 ELSE cast(# * 2 as bigint) % 5 END"
_TRUTH: Final = "cast(# as bigint)"
_LIST: Final = ("pmod(xxhash64(#), 4)", "cast(size(#) as bigint) % 5", "get(#, 1)")
Kind = tuple[Callable[[Pick], Aggregate | Composition], Sequence[str]]

OF_ANY_COUNTS: Final[tuple[Kind, ...]] = (
    (lambda _: agg.count(), (_NUMBER,)),
    (lambda _: agg.count("v"), (_NUMBER,)),
    (lambda _: agg.count_distinct("v"), (_NUMBER,)),
    (lambda pick: agg.count_distinct("k", pick(["v", "v % 2"])), (_NUMBER,)),
    (lambda _: agg.sum("v", distinct=True), (_NUMBER,)),
    (lambda _: composed.regr_sxx("v", "k"), (_NUMBER,)),
    (lambda _: agg.sum("v"), (_NUMBER,)),
    (lambda pick: agg.avg(pick(["v", "v / 3"])), (_NUMBER,)),
    (lambda pick: agg.variance(pick(["v", "v / 3"])), (_NUMBER,)),
    (lambda pick: agg.stddev(pick(["v", "k + v"])), (_NUMBER,)),
    (lambda _: agg.bool_or("v > 1"), (_TRUTH,)),
    (lambda _: agg.bool_and("v > 0"), (_TRUTH,)),
)
OF_NO_NEGATIVE_COUNTS: Final[tuple[Kind, ...]] = (
    (lambda _: agg.min("v"), ("#",)),
    (lambda _: agg.max("v"), ("#",)),
    (lambda pick: agg.first("v", order_by=pick(ORDERS)), ("#",)),
    (lambda pick: agg.last(pick(["v", "k"]), order_by=pick(ORDERS)), ("#",)),
    (lambda pick: agg.list("v", order_by=pick([None, None, *ORDERS])), _LIST),
    (lambda pick: agg.list("k % 2", order_by=pick(ORDERS)), _LIST),
    (lambda pick: composed.percentile("v", pick([0.5, 0.9])), (_NUMBER,)),
    (lambda pick: composed.mode("v", descending=pick([True, False])), ("#",)),
    (lambda _: composed.covar_pop("v", "k"), (_NUMBER,)),
    (lambda _: composed.collect_set("v"), _LIST),
)


def some_aggregates(pick: Pick, *, positive: bool) -> tuple[dict[str, Aggregate | Composition], str]:
    """Return one to three aggregates by name, and SQL text for a small number made of all of them.

    Those that negative counts have no meaning for are among them only where counts are ``positive``.
    """
    kinds = (*OF_ANY_COUNTS, *OF_NO_NEGATIVE_COUNTS) if positive else OF_ANY_COUNTS
    found: dict[str, Aggregate | Composition] = {}
    numbers: list[str] = []
    for name in ("x", "y", "z")[: pick([1, 1, 2, 3])]:
        make, texts = pick(kinds)
        condition = pick(CONDITIONS)
        found[name] = make(pick) if condition is None else make(pick).filter(condition)
        numbers.append(pick(texts).replace("#", name))
    if len(numbers) == 1:
        return found, numbers[0]
    return found, "(" + " + ".join(f"coalesce({n}, 0)" for n in numbers) + ") % 5"


_PARTITIONS: Final = ((), ("k",), ("v",))
_ORDERS: Final = ("k", "v", desc("v"), ("v", desc("k", nulls="first")), "k + v")
_WITHOUT_FRAME: Final = (
    functions.row_number(), functions.rank(), functions.dense_rank(), functions.ntile(2), functions.lag("v"),
    functions.lag("k", 2, 3), functions.lead("v", ignore_nulls=True), functions.lead("v", "k"),
)  # fmt: skip
_FRAMED: Final[tuple[Any, ...]] = (
    agg.count(), agg.sum("v"), agg.min("v"), agg.max("k"), agg.count("v").filter("k > 0"), agg.count_distinct("v"),
    functions.first_value("v"), functions.last_value("k", ignore_nulls=True), functions.nth_value("v", 2),
)  # fmt: skip
_STRATEGIES: Final = (*["auto"] * 5, *["recompute"] * 6, "prefix_sum")
"""Sums over the order are some hundred operators each, and have tests of their own: seldom drawn here."""
_BOUNDS: Final = (UNBOUNDED, -2, -1, 0, 0, 1, 2, UNBOUNDED)


def some_window_call(pick: Pick) -> WindowCall:
    """Return a call with a whole number for each row, or NULL: now and then as sums over the order."""
    strategy = pick(_STRATEGIES)
    window = Window.partition_by(*pick(_PARTITIONS))
    order = pick(_ORDERS)
    window = window.order_by(*order) if isinstance(order, tuple) else window.order_by(order)
    if pick([True, False]):
        return pick(_WITHOUT_FRAME).over(window, strategy=strategy)  # type: ignore[no-any-return]
    between = pick([window.rows_between, window.groups_between])
    if pick([True, False]):
        window = between(pick(_BOUNDS), pick(_BOUNDS))
    window = window.exclude(pick(["no others", "no others", "current row", "group", "ties"]))
    return pick(_FRAMED).over(window, strategy=strategy)  # type: ignore[no-any-return]
