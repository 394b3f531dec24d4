"""Window calls in Catalyst, where all rows are at one time and Spark means by the calls what the kernels do.

Rows that the order does not tell apart go by the same columns as in the kernels: the hash, then the row. Functions of
peers need a window of their own, without these; rows sorted for the finer one are sorted for it, too. So calls by row
come first.

What is left to the kernels: sums of floats, which are exact there; frames that Spark adds up anew for each row, unless
they are short (of a RANGE with offsets it is not known); and what Spark does not have.
"""

from __future__ import annotations

from typing import Final

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.dataflow.nodes import Reduce
from tidemill.expressions.ordering import OrderColumn
from tidemill.expressions.windows.bound import (
    MOST_COPIES,
    AggregateCall,
    Argument,
    BoundWindowCall,
    OffsetCall,
    RankingCall,
    ValueCall,
    Windows,
)
from tidemill.expressions.windows.frames import Frame as WindowFrame
from tidemill.expressions.windows.frames import Offset
from tidemill.renderer.spark.frames import DIFF, Frame, checkpointed, columns, consolidated, times
from tidemill.renderer.spark.scalars import native_sql
from tidemill.renderer.spark.types import sql_type

__all__ = ["is_native", "windowed"]

_SHORT: Final = 32
"""Frames of so many rows Spark adds up no slower than the kernels take differences of running sums."""
_GREATEST: Final = 2**31 - 1
"""Spark has larger numbers of rows neither as offsets nor as bounds of frames."""
_EXACT: Final = 2**53
_DIGITS: Final = 28
"""Sums of decimals of so many digits always fit the type that they have."""
_WHOLE: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
_EXTREMES: Final = {"min": "min", "max": "max", "bool_and": "min", "bool_or": "max"}
"""Aggregates for which it does not matter how often a value is there, by Spark's names."""
_TIE: Final = "tie"
_REPEATED: Final = "repeated"


@attrs.frozen
class _SparkCall:
    """A call as Spark has it: functions over a frame, and the value, made of theirs."""

    functions: tuple[str, ...]
    frame: str = ""
    value: str = "{0}"
    by_peers: bool = False
    """Whether rows have peers in the functions' window."""


@attrs.frozen
class _Window:
    """A window of Spark's but for the frame."""

    keys: tuple[str, ...]
    order: tuple[str, ...]

    def over(self, function: str, frame: str = "") -> str:
        """Return the text of a call."""
        partition = f"PARTITION BY {', '.join(self.keys)}" if self.keys else ""
        order = f"ORDER BY {', '.join(self.order)}" if self.order else ""
        return f"{function} OVER ({' '.join(part for part in (partition, order, frame) if part)})"


def is_native(node: Reduce, frame: Frame) -> bool:
    """Return whether Catalyst computes all calls of a Reduce by `Windows` as the kernels do, at the updates' time."""
    windows = node.logic
    if not isinstance(windows, Windows) or frame.time is None or frame.coordinates != len(frame.time):
        return False
    return all(_in_spark(call, windows) is not None for call in windows.calls)


def windowed(node: Reduce, frame: Frame, *, is_shown: bool) -> Frame | None:
    """Return each copy of each row with its calls' values, where `is_native`; None where there are no rows.

    Where an output shows them as they are, they are computed at once, to see whether any row is there twice: in the
    order, such rows follow one another. If none is, there is nothing to consolidate.
    """
    windows = node.logic
    assert isinstance(windows, Windows)
    assert frame.time is not None
    keys = tuple(f"c{k}" for k in node.keys)
    data, differ = _copies(frame, keys), frame.consolidated and frame.diffs == (1, 1)
    looks = is_shown and not differ
    ties = tuple(map(_sorted_by, windows.ties))
    tie = f"c{windows.ties[0].column}" if ties else _TIE
    if looks and not ties:
        data, ties = data.withColumn(_TIE, F.xxhash64(*columns(frame.width))), (_TIE,)
    peers = _Window(keys, tuple(map(_sorted_by, windows.order)))
    rows = _Window(keys, (*peers.order, *ties))
    by_row = {_REPEATED: f"{rows.over(f'lag({tie})')} <=> {tie}"} if looks else {}
    by_peers: dict[str, str] = {}
    values = [F.col(f"c{i}") for i in windows.kept(len(keys))]
    for number, call in enumerate(windows.calls):
        spark = _in_spark(call, windows)
        assert spark is not None
        names = [f"v{number}_{i}" for i in range(len(spark.functions))]
        texts = [(peers if spark.by_peers else rows).over(function, spark.frame) for function in spark.functions]
        (by_peers if spark.by_peers else by_row).update(zip(names, texts, strict=True))
        values.append(F.expr(spark.value.format(*names)))
    for calls in (by_row, by_peers):
        data = data.select("*", *(F.expr(text).alias(name) for name, text in calls.items()))
    when = [F.lit(t).cast("bigint").alias(name) for t, name in zip(frame.time, times(frame.coordinates), strict=True)]
    out = [value.alias(name) for value, name in zip(values, columns(len(values)), strict=True)]
    rest = [*when, F.lit(1).cast("bigint").alias(DIFF)]
    found = Frame(data.select(*out, *rest), len(out), frame.coordinates, frame.time, diffs=(1, 1), consolidated=differ)
    if not looks:
        return found
    counts = [F.count(F.lit(1)).alias("rows"), F.count_if(F.col(_REPEATED)).alias(_REPEATED)]
    lines, seen = checkpointed(data.select(*out, _REPEATED), *counts, drop=_REPEATED)
    found = attrs.evolve(found, data=lines.select("*", *rest), rows=seen["rows"], cheap=True, depth=1)
    return consolidated(attrs.evolve(found, consolidated=not seen[_REPEATED])) if found.rows else None


def _copies(frame: Frame, keys: tuple[str, ...]) -> DataFrame:
    """Return the rows, each copy one by itself. A count that may be none is an error, of which the kernels say more."""
    if frame.diffs == (1, 1):
        return frame.data
    if not frame.consolidated and (frame.diffs is None or frame.diffs[0] < 1):
        together = frame.data.repartition(*keys) if keys else frame.data.coalesce(1)
        frame = consolidated(frame.of(together))  # without another shuffle
    count = F.col(DIFF)
    wrong = F.raise_error(F.lit("tidemill: RAISED a count that no row can have in a window")).cast("bigint")
    copies = F.when(count.between(1, MOST_COPIES), count).otherwise(wrong)
    return frame.data.select("*", F.explode(F.sequence(F.lit(1).cast("bigint"), copies)).alias("copy")).drop("copy")


def _sorted_by(order: OrderColumn) -> str:
    way, nulls = "DESC" if order.descending else "ASC", "FIRST" if order.nulls_first else "LAST"
    return f"c{order.column} {way} NULLS {nulls}"


# -- calls -------------------------------------------------------------------------------------------------------------


def _in_spark(call: BoundWindowCall, windows: Windows) -> _SparkCall | None:
    """Return a call as Spark has it; None where Spark has none that means the same."""
    if isinstance(call, RankingCall):
        return _ranking(call, windows)
    if isinstance(call, OffsetCall):
        return _offset(call)
    return _in_frame(call, windows) if isinstance(call, ValueCall) else _aggregate(call, windows)


def _ranking(call: RankingCall, windows: Windows) -> _SparkCall | None:
    if call.by_row:
        number = "" if call.buckets is None else _number(call.buckets)
        return None if number is None else _SparkCall((f"{call.function}({number})",), value="CAST({0} AS BIGINT)")
    if not windows.order:
        return None
    value = "{0}" if call.function in ("percent_rank", "cume_dist") else "CAST({0} AS BIGINT)"
    return _SparkCall((f"{call.function}()",), value=value, by_peers=True)


def _offset(call: OffsetCall) -> _SparkCall | None:
    offset, default = _number(call.offset), _argument(call.default)
    if offset is None or default is None:
        return None
    if int(offset) == 0:
        return _SparkCall((), value=f"c{call.column}")
    return _SparkCall((f"{call.function}(c{call.column}, {offset}, {default}){_nulls(call)}",))


def _in_frame(call: ValueCall, windows: Windows) -> _SparkCall | None:
    text = _frame(call.frame, windows)
    if text is None or (call.n is not None and _number(call.n) is None):
        return None
    if text.startswith("RANGE"):  # whose peers Spark puts in no order
        if call.function != "first_value" or call.ignore_nulls or call.frame.start is not None:
            return None
        text = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"  # has the partition's first row, too
    number = "" if call.n is None else f", {_number(call.n)}"
    return _SparkCall((f"{call.function}(c{call.column}{number}){_nulls(call)}",), text)


def _aggregate(call: AggregateCall, windows: Windows) -> _SparkCall | None:
    text, aggregate = _frame(call.frame, windows), call.aggregate
    name, given, column = aggregate.function, aggregate.input, f"c{aggregate.column}"
    if text is None or (call.distinct and name not in _EXTREMES):
        return None
    by_peers = text.startswith("RANGE")
    if name in _EXTREMES:
        return _SparkCall((f"{_EXTREMES[name]}({column})",), text, by_peers=by_peers)
    if name == "count":
        return _SparkCall((f"count({'1' if aggregate.column is None else column})",), text, by_peers=by_peers)
    if given is None or not (given.is_integer or (given.is_decimal and name == "sum" and given.precision <= _DIGITS)):
        return None
    if name == "sum":
        value = "({0} - 1L) + 1L" if given.is_integer else f"CAST({{0}} AS {sql_type(call.output)})"
        return _SparkCall((f"sum({column})",), text, value, by_peers)  # -2**63 is an overflow
    return _SparkCall((f"sum({column})", f"count({column})"), text, _MEAN, by_peers) if name == "avg" else None


_MEAN: Final = (
    f"CASE WHEN {{1}} > 0 THEN CAST(CASE WHEN abs({{0}}) <= {_EXACT}L THEN {{0}} "
    "ELSE raise_error('tidemill: RAISED a sum beyond 53 bits') END AS DOUBLE) / CAST({1} AS DOUBLE) + 0D END"
)


def _frame(frame: WindowFrame, windows: Windows) -> str | None:
    """Return a frame as Spark has it; None where it has none, or would go through much of a partition for each row."""
    start, end = frame.start, frame.end
    if (start is None and end is None) or (frame.mode != "rows" and not windows.order):
        return _WHOLE if frame.exclusion == "no others" else None
    if frame.exclusion != "no others" or end is None:
        return None
    if frame.mode != "rows":
        return None if frame.offsets else str(attrs.evolve(frame, mode="range"))
    return str(frame) if _is_short(start, end) else None


def _is_short(start: Offset | None, end: Offset) -> bool:
    """Return whether a frame of ROWS has few of them; or grows, so that each row is added to it once."""
    assert isinstance(end, int)
    if start is None:
        return abs(end) <= _GREATEST
    assert isinstance(start, int)
    return max(abs(start), abs(end)) <= _GREATEST and 0 <= end - start < _SHORT


def _number(argument: Argument) -> str | None:
    """Return a number of rows that is the same for all rows and not NULL."""
    if isinstance(argument, int) or argument.value is None or abs(argument.value) > _GREATEST:
        return None
    return str(argument.value)


def _argument(argument: Argument) -> str | None:
    return f"c{argument}" if isinstance(argument, int) else native_sql(argument)


def _nulls(call: OffsetCall | ValueCall) -> str:
    return " IGNORE NULLS" if call.ignore_nulls else ""
