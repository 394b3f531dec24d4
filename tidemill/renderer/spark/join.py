"""Join: pairs of updates with equal keys, as an equi-join of DataFrames; other joins of rows as Spark's own."""

from __future__ import annotations

from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from tidemill.boundary.rows import COUNT_LIMIT
from tidemill.dataflow.composites import OuterJoin, PartneredJoin, SemiJoin
from tidemill.dataflow.nodes import Join, Node, arranged_keys
from tidemill.renderer.spark.failures import TOO_MANY
from tidemill.renderer.spark.frames import DIFF, Frame, columns, is_small, names

_LARGE = 1 << 62


class NotOfRowsError(Exception):
    """Raised where a join has to be lowered: rows are at several times or have counts, or the kernels have to help."""


def joined(node: Join, left: Frame, right: Frame) -> Frame:
    """Return the pairs of updates of both sides: times joined, counts multiplied.

    A side that is known to be small is broadcast to the other; else Spark decides.
    """
    tables = [f.data.toDF(*(f"{side}_{name}" for name in f.data.columns)) for f, side in ((left, "l"), (right, "r"))]
    if (smaller := min((left, right), key=lambda f: _LARGE if f.rows is None else f.rows)) and is_small(smaller):
        tables[smaller is right] = F.broadcast(tables[smaller is right])
    pairs = zip(arranged_keys(node.inputs[0]), arranged_keys(node.inputs[1]), strict=True)
    equal = "<=>" if node.nulls_equal else "="
    both = tables[0].join(tables[1], F.expr(" AND ".join([f"l_c{a} {equal} r_c{b}" for a, b in pairs] or ["true"])))
    row = [f"l_c{i}" if i < left.width else f"r_c{i - left.width}" for i in node.output]
    at = None
    if left.time is not None and right.time is not None:
        at = tuple(map(max, left.time, right.time))
    time = [f"{c}L" for c in at or ()]  # then Spark need not group by it
    time += [f"greatest(l_t{i}, r_t{i})" for i in range(len(time), left.coordinates)]
    inserted = left.inserted and right.inserted
    diff = "1L" if inserted else f"{checked_count(node, f'l_{DIFF}')} * {checked_count(node, f'r_{DIFF}')}"
    made = zip([*row, *time, diff], names(len(row), left.coordinates), strict=True)
    data = both.selectExpr(*(f"{text} AS {name}" for text, name in made))
    return Frame(data, len(row), left.coordinates, at, inserted=inserted)


def partnered(node: PartneredJoin, left: Frame | None, right: Frame | None, condition: str | None) -> Frame | None:
    """Return an outer, semi or anti join of rows that are all at one time, each as often as it comes.

    The condition is of pairs ``c0, c1, ...``. `NotOfRowsError` for any other updates, and without it.
    """
    keeps_right = isinstance(node, OuterJoin) and node.how != "left"
    if (left is None and not keeps_right) or (right is None and isinstance(node, SemiJoin)):
        return None
    if left is None or right is None or condition is None or not (left.inserted and right.inserted):
        raise NotOfRowsError
    if left.time is None or left.time != right.time:
        raise NotOfRowsError
    left_names, right_names = (source.schema.names for source in node.inputs)
    lefts = [left_names.index(name) for name, _ in node.on]
    keys = [f"c{right_names.index(name)} AS k{n}" for n, (_, name) in enumerate(node.on)]
    others = [i for i, name in enumerate(right_names) if name not in {key for _, key in node.on}]
    width = left.width + len(others)
    more = [f"c{i} AS c{left.width + n}" for n, i in enumerate(others)]
    sides = left.data.selectExpr(*columns(left.width)), right.data.selectExpr(*keys, *more)
    equal = "<=>" if node.nulls_equal else "="
    on = [*(f"c{i} {equal} k{n}" for n, i in enumerate(lefts)), condition]
    row = columns(width)
    if isinstance(node, OuterJoin):
        how = f"{node.how}_outer"
        for n, i in enumerate(lefts) if keeps_right else ():
            row[i] = f"coalesce({row[i]}, k{n})"
    else:
        how, row = "left_semi" if isinstance(node, SemiJoin) else "left_anti", columns(left.width)
    both = sides[0].join(sides[1], F.expr(" AND ".join(on)), how)
    made = zip([*row, *(f"{t}L" for t in left.time), "1L"], names(len(row), left.coordinates), strict=True)
    data = both.selectExpr(*(f"{text} AS {name}" for text, name in made))
    return Frame(data, len(row), left.coordinates, left.time, inserted=True)


def checked_count(node: Node, name: str) -> str:
    """Return counts, as SQL text, that raise where one is so large that products of it could overflow."""
    limits = f"{-COUNT_LIMIT}L AND {COUNT_LIMIT}L"
    return f"IF({name} BETWEEN {limits}, {name}, CAST(raise_error('{TOO_MANY}{node.id}') AS bigint))"
