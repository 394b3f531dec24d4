"""Column types as Spark has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import types as T  # noqa: N812 - what everybody calls it

from tidemill.expressions.schema import Schema
from tidemill.expressions.types import DType

_TYPES: Final[dict[str, Callable[[DType], T.DataType]]] = {
    "int64": lambda _: T.LongType(),
    "int32": lambda _: T.IntegerType(),
    "float64": lambda _: T.DoubleType(),
    "bool": lambda _: T.BooleanType(),
    "string": lambda _: T.StringType(),
    "binary": lambda _: T.BinaryType(),
    "date": lambda _: T.DateType(),
    "timestamp": lambda _: T.TimestampNTZType(),  # microseconds without a zone, whatever the session's is
    "timestamptz": lambda _: T.TimestampType(),
    "time": lambda _: T.TimeType(),
    "interval": lambda _: T.DayTimeIntervalType(),
    "uuid": lambda _: T.StringType(),
    "decimal": lambda t: T.DecimalType(t.precision, t.scale),
    "struct": lambda t: T.StructType([T.StructField(name, spark_type(of)) for name, of in t.fields]),
    "list": lambda t: T.ArrayType(spark_type(_element(t))),
}


def spark_type(dtype: DType) -> T.DataType:
    """Return the Spark type that holds a column of this type."""
    return _TYPES[dtype.name](dtype)


def _element(dtype: DType) -> DType:
    assert dtype.element is not None
    return dtype.element


def sql_type(dtype: DType) -> str:
    """Return a type's name in Spark SQL."""
    return str(spark_type(dtype).simpleString())


def struct(schema: Schema) -> T.StructType:
    """Return the Spark schema of rows."""
    return T.StructType([T.StructField(f.name, spark_type(f.dtype), f.nullable) for f in schema])
