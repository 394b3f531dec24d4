"""Column types as Spark has them."""

from __future__ import annotations

from pyspark.sql import types as T  # noqa: N812 - what everybody calls it
from pyspark.sql.pandas.types import from_arrow_type

from tidemill.expressions.schema import Schema
from tidemill.expressions.types import DType


def spark_type(dtype: DType) -> T.DataType:
    """Return the Spark type that holds a column of this type; a timestamp has no zone, whatever the session's is."""
    return from_arrow_type(dtype.arrow, prefer_timestamp_ntz=True)


def sql_type(dtype: DType) -> str:
    """Return a type's name in Spark SQL."""
    return str(spark_type(dtype).simpleString())


def struct(schema: Schema) -> T.StructType:
    """Return the Spark schema of rows."""
    return T.StructType([T.StructField(f.name, spark_type(f.dtype), f.nullable) for f in schema])
