"""What users call on a dataflow that is being built: inputs, constants, outputs, blocks of recursion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from tidemill.boundary.likeness import schema_like
from tidemill.boundary.rows import checked_batch, python_rows
from tidemill.collections.builder import Builder, Monotone
from tidemill.collections.collection import Collection, own
from tidemill.collections.dynamic_filters import check_monotone
from tidemill.collections.recursion import LetRec, letrec
from tidemill.collections.watermarks import declare
from tidemill.dataflow.graph import Graph
from tidemill.dataflow.nodes import Input, Output
from tidemill.errors import GraphError, SchemaError
from tidemill.expressions.schema import Schema, SchemaLike


class Building(Builder):
    """A dataflow being built, as users hold it."""

    def __init__(self, name: str = "dataflow", time: str | Sequence[str] = "epoch") -> None:
        coordinates = (time,) if isinstance(time, str) else tuple(time)
        if not coordinates or len(set(coordinates)) < len(coordinates):
            msg = f"time={time!r}: expected one or more different names of coordinates"
            raise GraphError(msg)
        super().__init__(Graph(name, coordinates))

    @property
    def name(self) -> str:
        """The dataflow's name, as errors and pictures give it."""
        return self.graph.name

    def input(
        self,
        name: str,
        schema: SchemaLike | None = None,
        *,
        like: Any = None,
        extra: Literal["refuse", "ignore"] = "refuse",
        unique: bool = False,
        key: str | Sequence[str] | None = None,
        watermark: Any = None,
        monotone: Monotone | None = None,
    ) -> Collection:
        """Return a collection fed from outside under this name.

        ``schema`` maps names of columns to types, or is Arrow's; ``like=`` takes that of a table (pandas, Polars,
        Arrow, DuckDB, Spark), of `read_parquet`, of another collection, or of a dataclass, a class of attrs, a named
        tuple or a pydantic model. Columns that rows have besides are refused, or with ``extra="ignore"`` left out.

        Columns are nullable unless declared ``not null``. ``unique=True`` checks, when a time closes, that every count
        is 0 or 1. ``key=[...]`` allows ``run.upsert(name, rows)`` and deletes by key.

        ``watermark=("ts", timedelta(minutes=5))`` says that rows come at most so long after rows with a later ``ts``:
        below the greatest one so far less the delay no more are expected, and those that come are late. With
        ``watermark="ts"`` only what `Run.watermark` tells counts. See `Collection.sort_buffer` and
        `Collection.on_time`. For times of one coordinate.

        ``monotone="increasing"`` (or ``"decreasing"``) declares that the values of the one row that is there never go
        back, as those of a clock: what is filtered by them (`Collection.temporal_filter`, `Collection.dynamic_filter`)
        forgets the rows that they have passed, and a value that goes back, or away, is an error there.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow("routes")
        >>> flow.input("flights", {"origin": "string not null", "delay": "int64"})
        Collection(origin: string not null, delay: int64)

        >>> import pandas as pd
        >>> flow.input("planes", like=pd.DataFrame({"tailnum": ["N1"], "seats": [150]}), key="tailnum")
        Collection(tailnum: string, seats: int64)
        """
        made = _schema(name, schema, like)
        if extra not in ("refuse", "ignore"):
            msg = f"extra={extra!r}: expected 'refuse' or 'ignore', for columns that the schema does not have"
            raise SchemaError(msg)
        keys = (key,) if isinstance(key, str) else tuple(key or ())
        positions = tuple(made.index(k) for k in keys)
        with self.attempt():
            node = self.graph.add(
                Input,
                scope=self.graph.root,
                name=_named(name, "input"),
                schema=made,
                unique=unique,
                key=positions,
                ignores_extra=extra == "ignore",
            )
            if watermark is not None:
                declare(self, node, watermark)
            if monotone is not None:
                check_monotone(monotone, f"input {name!r}")
                self.monotone[node] = monotone
        return Collection(self, node)

    def constant(self, schema: SchemaLike, rows: Any) -> Collection:
        """Return a collection of these rows, there from the least time on and never changing.

        Rows are whatever ``run.insert`` takes: tuples, rows whose values have names, tables.

        >>> import tidemill as tm
        >>> tm.Dataflow().constant({"airport": "string"}, [("JFK",), ("LGA",)])
        Collection(airport: string)
        """
        return constant(self, schema, rows)

    def output(self, name: str, collection: Collection, *, changes: bool | int = True) -> None:
        """Make a collection an output: what runs can be asked for by this name.

        ``changes`` says what is kept of updates not yet read: True all of them at their exact times, False none, a
        number about so many (beyond it the oldest times are folded together; the net effect stays right).
        """
        if not isinstance(changes, int) or changes < 0:
            msg = f"output {name!r}: changes={changes!r}: expected True, False or a number of updates"
            raise GraphError(msg)
        node = own(self, collection, "output").node
        node.schema.typed()
        if node.scope is not self.graph.root:
            msg = (
                f"output {name!r}: {node.where} is inside the loop {node.scope.path}: "
                "return it from the body, or read the block's result, and use that"
            )
            raise GraphError(msg)
        self.graph.add(
            Output, scope=node.scope, inputs=(node,), name=_named(name, "output"), schema=node.schema, changes=changes
        )

    def letrec(self, name: str = "letrec", *, error_at: Any = ..., return_at: int | None = None) -> LetRec:
        """Return a block of mutually recursive bindings (SQL's WITH MUTUALLY RECURSIVE), to be used with ``with``.

        Bindings start empty. In each iteration they are updated in sequence, each seeing the most recent contents of
        the others; the block ends when an iteration changes nothing. ``error_at=n`` (default 10,000, None for no
        limit) raises ``IterationLimitError`` where iteration n still changed a binding; ``return_at=n`` makes
        the state after n iterations the result. Blocks nest and follow one another. Counts must settle for a fixed
        point to be reached: end bindings with ``distinct`` or an aggregate.

        >>> import tidemill as tm
        >>> flow = tm.Dataflow()
        >>> one = flow.constant({"i": "int64"}, [(1,)])
        >>> with flow.letrec(error_at=100) as rec:
        ...     up = rec.declare("up", {"i": "int64"})
        ...     _ = rec.define("up", one.concat(up.filter("i < 3").select(i="i + 1")).distinct())
        >>> flow.output("up", rec["up"])
        >>> list(flow.start().snapshot("up"))
        [(1,), (2,), (3,)]
        """
        return letrec(self, name, error_at=error_at, return_at=return_at)


def constant(builder: Builder, schema: SchemaLike, rows: Any) -> Collection:
    """Return a collection of these rows; see ``Dataflow.constant``."""
    made, graph = Schema.of(schema), builder.graph
    checked = tuple(python_rows(checked_batch(made, rows, "constant")))
    return Collection(builder, graph.add(Input, scope=graph.root, name="constant", schema=made, rows=checked))


def _named(name: Any, what: str) -> str:
    if not isinstance(name, str) or not name:
        msg = f"{name!r} is not a name of an {what}: expected a non-empty string"
        raise GraphError(msg)
    return name


def _schema(name: str, schema: SchemaLike | None, like: Any) -> Schema:
    """Return the schema of an input that is given, or that of what it is to be like."""
    if (schema is None) == (like is None):
        what = "neither is given" if schema is None else "both are given"
        msg = f"input {name!r}: expected a schema or like=, {what}"
        raise SchemaError(msg)
    return Schema.of(schema) if schema is not None else schema_like(like)
