"""An order of rows with sums over its blocks: what prefix sums, interval sums and searches are computed from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

import tidemill.expressions.aggregate_functions as agg
from tidemill.algorithms import combine
from tidemill.algorithms.combine import Combination
from tidemill.algorithms.prefix_sums.blocks import PLACES, Blocks, FoldLists, StateColumns, state_columns
from tidemill.algorithms.prefix_sums.combiners import Combiner
from tidemill.algorithms.prefix_sums.routing import BlockShape
from tidemill.collections.collection import Collection
from tidemill.collections.table_functions import apply_table
from tidemill.dataflow.origins import Derivation, Origins
from tidemill.errors import SchemaError, did_you_mean
from tidemill.expressions.binding import bind, bind_predicate
from tidemill.expressions.expr import col, lit
from tidemill.expressions.functions.choice import when
from tidemill.expressions.ordering import hash_of_row
from tidemill.expressions.rewriting import can_fail
from tidemill.expressions.sql_text import as_expr

_EVERYTHING: Final = "everything#"
"""A column that is the same everywhere, where there is no other to partition by."""
_HASH: Final = "hash#"
_SHAPE: Final = BlockShape()
_COUNTS: Final = ("rows", "groups", "count")
"""Combinations by which a search can go."""


@attrs.frozen
class OrderSums:
    """Rows in an order, cut into blocks, with sums over each block. Made by `order_sums`; can be used many times."""

    partition_by: tuple[str, ...]
    index: str
    sums: Mapping[str, Combination]
    combiners: Mapping[str, Combiner]
    blocks: Blocks

    @property
    def places(self) -> tuple[str, ...]:
        """The columns that say where a row is: those to partition by, and the index."""
        return (*self.partition_by, self.index)

    @property
    def states(self) -> StateColumns:
        """The columns of the sums' states."""
        return self.blocks.states

    def partitioned(self, rows: Collection) -> Collection:
        """Return rows with the columns that blocks are partitioned by."""
        return rows if self.partition_by else rows.with_columns(**{_EVERYTHING: lit(value=True)})

    @property
    def at_rows(self) -> StateColumns:
        """The columns of what prefix sums at rows are given as."""
        return state_columns({name: combiner.at_rows for name, combiner in self.combiners.items()})

    def finished(
        self,
        rows: Collection,
        keep: Sequence[str],
        *,
        at_rows: bool = False,
        row: Sequence[str] | None = None,
        known: Mapping[str, Derivation] | None = None,
    ) -> Collection:
        """Return these columns of rows, with the final values of the sums whose states the rows carry.

        Errors tell the columns of ``row``, or those that are kept, and sums as they are ``known``, or by their names.
        """
        states = self.at_rows if at_rows else self.states
        known = known or {name: Derivation(c.name, name) for name, c in self.sums.items()}
        values = tuple((c, known[n]) for n, columns in zip(self.combiners, states.names, strict=True) for c in columns)
        with rows.builder.graph.telling(Origins(tuple(keep if row is None else row), values)):
            for name, combiner, columns in zip(self.combiners, states.combiners, states.names, strict=True):
                rows = combiner.finished(rows, columns, name)
            return rows.select(*keep, *self.combiners)

    def only(self, *names: str) -> OrderSums:
        """Return the same order with some of its sums."""
        states = state_columns({name: self.combiners[name] for name in names})
        return attrs.evolve(
            self,
            sums={name: self.sums[name] for name in names},
            combiners={name: self.combiners[name] for name in names},
            blocks=self.blocks.only(states),
        )

    def counting(self, count: str) -> int:
        """Return which of the sums is the count of this name."""
        if count not in self.sums or self.sums[count].name not in _COUNTS:
            counts = [n for n, c in self.sums.items() if c.name in _COUNTS]
            msg = f"no count {count!r} among the sums: {did_you_mean(count, counts)}; name one, as rows=combine.rows()"
            raise SchemaError(msg)
        return list(self.sums).index(count)


def order_sums(
    values: Collection,
    /,
    *,
    index: str,
    partition_by: str | Sequence[str] = (),
    unique: bool = False,
    shape: BlockShape = _SHAPE,
    **sums: Combination,
) -> OrderSums:
    """Return rows in the order of a column, with sums by block, for `prefix_sum` and the others to be given.

    ``index`` is a column of whole numbers, dates, timestamps, strings or bytes, ascending; `order_index` makes one of
    any ``ORDER BY``. Rows where it is NULL have no place and take no part. Rows with equal indexes are at one place,
    and are combined there first, in the order of their hashes. With ``unique`` they are not, since only copies of a row
    share an index, as `unique_index` makes it; then each copy counts as a row of its own.
    """
    parts = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    for name, combination in sums.items():
        if not isinstance(combination, Combination):
            msg = f"{name}={combination!r}: expected a combination, such as combine.sum('x')"
            raise SchemaError(msg)
    schema = values.schema
    arguments = {
        name: lit(value=True) if c.argument is None else as_expr(c.argument, schema) for name, c in sums.items()
    }
    combiners = {name: c.combiner(bind(arguments[name], schema).dtype) for name, c in sums.items()}
    states = state_columns(combiners)
    keys = parts or (_EVERYTHING,)
    whole = {} if parts else {_EVERYTHING: lit(value=True)}
    columns = {f"{name}#": e for name, e in arguments.items()}
    for name, c in sums.items():
        if c.condition is not None:
            condition = columns[f"{name}#if"] = as_expr(c.condition, schema)
            bind_predicate(condition, schema, f"{name}: combine.{c.name}(...).filter")
            if can_fail(bind(arguments[name], schema)):
                columns[f"{name}#"] = when(condition, arguments[name]).otherwise(None)
    placed = values.filter(col(index).is_not_null()) if schema.field(index).nullable else values
    placed = placed.select(*parts, index, **whole, **columns, **({} if unique else {_HASH: hash_of_row(schema)}))
    for (name, combiner), names in zip(combiners.items(), states.names, strict=True):
        placed = combiner.lifted(placed, f"{name}#", names)
        if sums[name].condition is not None:
            placed = placed.with_columns(**{n: when(col(f"{name}#if"), col(n)).otherwise(None) for n in names})
    if not unique:
        placed = _at_one_place(placed, (*keys, index), sums, states)
    blocks = Blocks.of(placed.select(*keys, index, *states.flat), keys, index, states, shape)
    return OrderSums(parts, index, dict(sums), combiners, blocks)


def _at_one_place(
    rows: Collection, place: Sequence[str], sums: Mapping[str, Combination], states: StateColumns
) -> Collection:
    """Return the states of all rows at each place combined: by aggregates, or as lists in the order of rows' hashes."""
    aggregates: dict[str, Any] = {}
    listed: list[int] = []
    for i, (combination, combiner) in enumerate(zip(sums.values(), states.combiners, strict=True)):
        names = states.names[i]
        at_once = [agg.max(n) for n in names] if combination.each_place else combiner.of_one_place(names)
        if at_once is None:
            at_once = [agg.list(n, order_by=_HASH) for n in names]
            listed.append(i)
        aggregates |= dict(zip(names, at_once, strict=True))
    if not aggregates:
        return rows.select(*place).distinct()
    values = tuple(
        (c, Derivation(sums[n].name, n)) for n, columns in zip(sums, states.names, strict=True) for c in columns
    )
    with rows.builder.graph.telling(Origins(tuple(place), values)):
        grouped = rows.group_by(*place).agg(**aggregates)
    if not listed:
        return grouped
    some = StateColumns(tuple(states.combiners[i] for i in listed), tuple(states.names[i] for i in listed))
    return apply_table(
        grouped, FoldLists(some), some.flat, keep=[n for n in grouped.schema.names if n not in some.flat]
    )


def block_sums(values: Collection | OrderSums, /, *, level: str = "level", **order: Any) -> Collection:
    """Return the sums over each block of an order: the partition, the level, the place it begins at, the sums.

    ``values`` are rows, with ``index=``, ``partition_by=``, the sums by name and whatever else `order_sums` takes, to
    which counts of ``rows`` and of ``groups``, that is, different places, are added; or what `order_sums` gives. Level
    0 are the places, the highest level is the whole partition, which begins before all places, as the first block of
    every level does: there the index is NULL. Cost: a change of a row changes one block of each level; and now and
    then, the less often the larger it is, cuts a block in two or joins two.

    >>> import tidemill as tm
    >>> from tidemill.algorithms import BlockShape, block_sums, combine
    >>> flow = tm.Dataflow()
    >>> sales = flow.constant({"day": "int64", "sold": "int64"}, [(d, d * d) for d in range(6)] + [(3, 100)])
    >>> shape = BlockShape(bits=1, levels=1)
    >>> flow.output("sums", block_sums(sales, index="day", total=combine.sum("sold"), shape=shape))
    >>> [row for row in flow.start().snapshot("sums") if row[0] > 0]
    [(1, 0, 1, 1, 0), (1, 1, 6, 5, 155), (2, None, 7, 6, 155)]
    """
    if isinstance(values, OrderSums):
        given = values
    else:
        given = order_sums(values, **{"rows": combine.rows(), "groups": combine.groups(), **order})
    blocks, states = given.blocks, given.states
    columns = [*blocks.parts, given.index, *states.flat]
    levels = blocks.shape.levels
    parts = [blocks.entries[d].with_columns(**{level: _number(levels - d)}) for d in range(levels + 1)]
    whole = apply_table(blocks.at(0), FoldLists(states), states.flat, keep=[*blocks.parts, PLACES])
    place = blocks.entries[0].schema.field(given.index).dtype
    parts.append(whole.with_columns(**{given.index: lit(None).cast(place), level: _number(levels + 1)}))
    first, *others = (p.select(*columns, level) for p in parts)
    return given.finished(first.concat(*others), [*given.partition_by, level, given.index])


def _number(level: int) -> Any:
    return lit(level).cast("int64")
