"""Users' DataFrames in and out: with times and diffs as columns, checked before anything is computed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import types as T  # noqa: N812

from tidemill.boundary.results import arrow_table
from tidemill.boundary.rows import COUNT_LIMIT, python_rows
from tidemill.boundary.tables import mismatch
from tidemill.boundary.update_tables import Names
from tidemill.dataflow.lattice import MAX_COORDINATE
from tidemill.dataflow.nodes import Input, Node
from tidemill.errors import RowError, SchemaError, TimeError
from tidemill.expressions.bound import BoundLiteral
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import FLOAT64, INT64, STRING, DType
from tidemill.renderer.runs import failures
from tidemill.renderer.spark.frames import DIFF, Frame, columns, names, times
from tidemill.renderer.spark.scalars import native_sql
from tidemill.renderer.spark.types import spark_type, sql_type, struct

INVALID: Final = "tidemill: a value that the schema does not allow"
_CASE: Final = "spark.sql.caseSensitive"
_PLAIN_NAME: Final = re.compile(r"\w+", re.ASCII)
_ONE: Final = "1L"
"""The diff of rows that are given without."""


def check_capitals(named: Names, schema: Schema, where: str, *, sensitive: bool) -> None:
    """Refuse columns, with those of time and diff, that Spark does not distinguish."""
    whole = [*schema.names, *named.times, named.diff]
    if not sensitive and len({n.lower() for n in whole}) < len(whole):
        msg = (
            f"{where}: columns {whole} differ only in capitals, which {_CASE}=false does not distinguish: rename "
            f"some, or set {_CASE}=true"
        )
        raise SchemaError(msg)


# -- in ---------------------------------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class Given:
    """A user's DataFrame, and how its columns make updates of an input: SQL texts by the names of a `Frame`."""

    data: DataFrame
    texts: Mapping[str, str]
    nullable: Sequence[bool]
    """Whether Spark says of a row's columns that they may be NULL."""

    @property
    def updates(self) -> DataFrame:
        """The updates, of which nothing is checked yet."""
        return self.data.selectExpr(*(f"{text} AS {name}" for name, text in self.texts.items()))


def given(node: Input, data: Any, named: Names) -> Given:
    """Return a user's DataFrame as updates of an input, with the columns of a `Frame`, its values not checked yet."""
    if not hasattr(data, "localCheckpoint"):
        msg = f"{node.where}: {type(data).__name__} is not a Spark DataFrame: make one with spark.createDataFrame"
        raise failures.of_node(node, RowError(msg))
    schema = node.schema
    has = list(data.columns)
    extra = [*named.times, named.diff]
    if len(set(has)) < len(has) or sorted(n for n in has if n not in extra) != sorted(schema.names):
        found = [n for n in has if n not in extra]
        msg = f"{node.where}: the DataFrame has the columns {has}, expected {list(schema.names)}: " + mismatch(
            found, schema.names
        )
        raise failures.of_node(node, RowError(msg))
    types = dict(zip(has, data.schema.fields, strict=True))
    if not all(map(_PLAIN_NAME.fullmatch, has)):  # some need more than quotes in SQL text
        numbered = [f"n{i}" for i in range(len(has))]
        data, place = data.toDF(*numbered), dict(zip(has, numbered, strict=True))
    else:
        place = {name: f"`{name}`" for name in has}
    row = [_typed(node, f, place[f.name], types[f.name].dataType) for f in schema]
    time = [_whole(node, n, place, types, 0) for n in named.times]
    diff = _whole(node, named.diff, place, types, 1)
    texts = zip(names(len(schema), len(named.times)), [*row, *time, diff], strict=True)
    return Given(data, dict(texts), [types[f.name].nullable for f in schema])


def typed_updates(node: Input, data: Any, named: Names) -> DataFrame:
    """Return the updates that `given` describes."""
    return given(node, data, named).updates


def _typed(node: Input, field: Field, name: str, found: T.DataType) -> str:
    wanted = spark_type(field.dtype)
    if not _fits(found, wanted):
        msg = f"{node.where}: column {field.name!r} is of Spark's type {found.simpleString()}: expected "
        msg += f"{sql_type(field.dtype)} for {field}; cast it first"
        raise failures.of_node(node, RowError(msg), column=field.name)
    text = name if found == wanted else f"CAST({name} AS {sql_type(field.dtype)})"
    return f"{text} + 0D" if field.dtype == FLOAT64 else text  # 0.0 for -0.0


def _fits(found: T.DataType, wanted: T.DataType) -> bool:  # noqa: PLR0911 - one line a family of types
    whole = [T.ByteType, T.ShortType, T.IntegerType, T.LongType]
    if type(found) in whole and type(wanted) in whole:
        return whole.index(type(found)) <= whole.index(type(wanted))
    if isinstance(wanted, T.ArrayType):
        return isinstance(found, T.ArrayType) and _fits(found.elementType, wanted.elementType)
    if isinstance(wanted, T.StructType):
        return (
            isinstance(found, T.StructType)
            and found.names == wanted.names
            and all(_fits(f.dataType, w.dataType) for f, w in zip(found, wanted, strict=True))
        )
    if isinstance(wanted, T.StringType):
        return isinstance(found, (T.StringType, T.VarcharType, T.CharType))
    if isinstance(wanted, T.DecimalType):
        if not isinstance(found, T.DecimalType):
            return False
        whole_digits = wanted.precision - wanted.scale
        return bool(found.scale <= wanted.scale and found.precision - found.scale <= whole_digits)
    return bool(type(found) is type(wanted) or (isinstance(wanted, T.DoubleType) and isinstance(found, T.FloatType)))


def _whole(node: Input, name: str, place: Mapping[str, str], types: Mapping[str, T.StructField], default: int) -> str:
    if name not in place:
        return _ONE if default else "0L"
    found = types[name].dataType
    if not _fits(found, T.LongType()):
        msg = f"{node.where}: column {name!r} is of Spark's type {found.simpleString()}: expected bigint"
        raise failures.of_node(node, RowError(msg), column=name)
    return f"CAST({place[name]} AS bigint)"


def checked_inputs(nodes: Mapping[Input, DataFrame], named: Names) -> dict[Input, Frame | None]:
    """Return the updates of all inputs, checked, and with their number and whether they are at one time.

    One job for all, which reads each of them once. ``RowError`` or ``TimeError`` with a row where something is wrong.
    """
    if not nodes:
        return {}
    summaries = [_summary(i, node, data, len(named.times)) for i, (node, data) in enumerate(nodes.items())]
    whole = summaries[0]
    for summary in summaries[1:]:
        whole = whole.union(summary)
    seen = {line["input"]: line for line in whole.collect()}
    return {node: _checked(node, data, seen[i], named) for i, (node, data) in enumerate(nodes.items())}


def _summary(number: int, node: Input, data: DataFrame, coordinates: int) -> DataFrame:
    wrong = ", ".join(f"count_if({bad})" for _, bad, _ in _violations(node, coordinates))
    ends = ", ".join(f"min({name}), max({name})" for name in times(coordinates))
    line = data.agg(*map(F.expr, ("count(1) AS rows", f"array({wrong}) AS wrong", f"array({ends}) AS ends")))
    return line.selectExpr(f"{number} AS input", "rows", "wrong", "ends")


def is_invalid(node: Input, coordinates: int) -> Column:
    """Return whether an update is one that `checked_inputs` refuses."""
    whole = " OR ".join(f"({bad})" for _, bad, _ in _violations(node, coordinates))
    return F.expr(f"coalesce({whole}, false)")


def guarded_inputs(nodes: Mapping[Input, Given], named: Names) -> dict[Input, Frame]:
    """Return the updates of inputs without columns of times, not checked yet: reading a value that is wrong raises.

    Spark's error is `INVALID` then, and `checked_inputs` finds out what is wrong. No job, so nothing is known of them
    but that they are at time 0.
    """
    coordinates = len(named.times)
    found: dict[Input, Frame] = {}
    for node, one in nodes.items():
        texts, row = dict(one.texts), columns(len(node.schema))
        for name, bad, _ in _violations(node, coordinates, one.texts):
            if (name in row or name == DIFF) and texts[name] != _ONE:
                what = "the diff" if name == DIFF else f"column {node.schema.fields[int(name[1:])]}"
                error = native_sql(BoundLiteral(f"{INVALID}: {node.where}, {what}", STRING))
                texts[name] = f"IF({bad}, raise_error({error}), {texts[name]})"
        found[node] = Frame(
            attrs.evolve(one, texts=texts).updates, len(row), coordinates, (0,) * coordinates, cheap=True
        )
    return found


def _violations(node: Input, coordinates: int, texts: Mapping[str, str] | None = None) -> list[tuple[str, str, str]]:
    """Return the checks of updates: columns, conditions on them or their texts, and messages."""
    found = []
    for name, field in zip(columns(len(node.schema)), node.schema, strict=True):
        if not field.nullable:
            found.append((name, "{} IS NULL", f"column {field} is NULL: nulls are not allowed here"))
        if (beyond := _BEYOND.get(field.dtype.name)) is not None:
            found.append((name, beyond, f"column {field} holds what is not a valid {field.dtype} here: overflow"))
    for name in times(coordinates):
        bad = f"{{0}} IS NULL OR {{0}} NOT BETWEEN 0L AND {MAX_COORDINATE - 1}L"
        found.append((name, bad, "a time is NULL or out of range: expected non-negative integers"))
    bad = f"{{0}} IS NULL OR {{0}} NOT BETWEEN {-COUNT_LIMIT}L AND {COUNT_LIMIT}L"
    found.append((DIFF, bad, "a diff is NULL or beyond 2**31"))
    return [(name, bad.format((texts or {}).get(name, name)), what) for name, bad, what in found]


_BEYOND: Final = {
    "int64": "{} = -9223372036854775808L",
    "date": "{} NOT BETWEEN DATE'0001-01-01' AND DATE'9999-12-31'",
    "timestamptz": "{} NOT BETWEEN TIMESTAMP'0001-01-01 00:00:00Z' AND TIMESTAMP'9999-12-31 23:59:59.999999Z'",
    "interval": "{} < INTERVAL '-106751991 04:00:54.775807' DAY TO SECOND",
    "uuid": "{} NOT RLIKE '^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$'",
    "timestamp": "{} NOT BETWEEN TIMESTAMP_NTZ'0001-01-01 00:00:00' AND TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
}
"""The values of Spark's types that are none of ours."""


def _checked(node: Input, data: DataFrame, seen: Any, named: Names) -> Frame | None:
    bad = _violations(node, len(named.times))
    for count, (_, condition, what) in zip(seen["wrong"], bad, strict=True):
        if count:
            row = data.filter(condition).limit(1).select(*(F.col(n).cast("string") for n in data.columns)).collect()[0]
            update = dict(zip([*node.schema.names, *named.times, named.diff], row, strict=True))
            msg = f"{node.where}: {what}, in {count} of {seen['rows']} rows, among others {update}"
            raise (TimeError if what.startswith("a time") else RowError)(msg)
    if not seen["rows"]:
        return None
    ends = list(zip(seen["ends"][::2], seen["ends"][1::2], strict=True))
    time = tuple(low for low, _ in ends) if all(low == high for low, high in ends) else None
    return Frame(data, len(node.schema), len(named.times), time, rows=seen["rows"], cheap=True)


def constant(spark: SparkSession, node: Input, coordinates: int) -> Frame | None:
    """Return a constant's rows as updates at the least time."""
    if not node.rows:
        return None
    data = frame_of_rows(spark, node.schema, list(node.rows))
    rest = [f"0L AS {name}" for name in times(coordinates)]
    data = data.toDF(*columns(len(node.schema))).selectExpr("*", *rest, f"1L AS {DIFF}")
    return Frame(data, len(node.schema), coordinates, (0,) * coordinates, len(node.rows), cheap=True, inserted=True)


def frame_of_rows(spark: SparkSession, schema: Schema, rows: list[tuple[Any, ...]]) -> DataFrame:
    """Return checked rows as a DataFrame of the schema."""
    return spark.createDataFrame(arrow_table(schema, rows), schema=struct(schema))


def updates_of(spark: SparkSession, node: Node, lines: list[tuple[Any, ...]], more: list[str]) -> DataFrame:
    """Return a node's checked rows, each with whole numbers in further columns, as a DataFrame."""
    schema = Schema((*node.schema, *(Field(name, INT64) for name in more)))
    return frame_of_rows(spark, schema, lines)


# -- out --------------------------------------------------------------------------------------------------------------


def table_of(schema: Schema, data: DataFrame, whole: int) -> tuple[pa.Table, list[pa.ChunkedArray]]:
    """Return a DataFrame's first columns as a table of the schema, and the ``whole`` columns of integers after them."""
    table = data.toArrow()
    arrays = [_cast(table.column(i), f.dtype) for i, f in enumerate(schema)]
    rest = [_cast(table.column(len(schema) + i), INT64) for i in range(whole)]
    return pa.Table.from_arrays(arrays, names=list(schema.names)), rest


def rows_of(schema: Schema, data: DataFrame) -> list[tuple[Any, ...]]:
    """Return a DataFrame's first columns as rows of canonical Python values."""
    return python_rows(table_of(schema, data, 0)[0])


def _cast(column: pa.ChunkedArray, dtype: DType) -> pa.ChunkedArray:
    return column if column.type == dtype.arrow else column.cast(dtype.arrow)
