"""Tables from outside: whatever speaks Arrow, checked against a schema and cast where nothing is lost.

What is copied: a column of just the schema's type in one chunk, or in some large ones, is taken as it is, whoever owns
its memory (Arrow, Polars, DuckDB, pandas where nothing is missing). Others are cast and many small chunks joined, once
each. The embedded engine then writes each column once, into the matrix it works on; from there on the giver may change
its memory.
"""

from __future__ import annotations

import abc
import datetime as dt
import difflib
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NoReturn

import numpy as np
import pyarrow as pa

from tidemill.boundary.arrow_arrays import stored, truths_of
from tidemill.boundary.list_columns import list_array, list_parts, struct_array
from tidemill.boundary.values import (
    EXACT,
    INT64_LIMIT,
    NAN_IS_NO_NULL,
    BadValueError,
    check_of,
    checked_value,
    is_nan,
)
from tidemill.errors import RowError, SchemaError
from tidemill.expressions.functions.date_values import whole_micros
from tidemill.expressions.schema import Field, Schema
from tidemill.expressions.types import DType, dtype, is_arrow_list

_INT32: Final = pa.int32()
_INT64: Final = pa.int64()
_DAYS: Final = np.dtype(np.int32)
_NUMBERS: Final = np.dtype(np.int64)
_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_YEARS: Final = (whole_micros(dt.datetime.min), whole_micros(dt.datetime.max))  # noqa: DTZ901 - timestamps have no zone
_RANGES: Final[dict[str, tuple[int, ...]]] = {
    "int64": (-INT64_LIMIT, INT64_LIMIT),
    "date": (dt.date.min.toordinal() - _EPOCH_DAY, dt.date.max.toordinal() - _EPOCH_DAY),
    "timestamp": _YEARS,
    "timestamptz": _YEARS,
    "time": (0, whole_micros(dt.time.max)),
    "interval": (-INT64_LIMIT, INT64_LIMIT),
}
"""Arrow's types hold more than ours: the years 1 to 9999 are those that Python and Spark know."""
_WHY: Final = {
    "int64": "the pattern stands for NULL", "interval": "the pattern stands for NULL", "time": "a day has 24 hours",
}  # fmt: skip
_LARGE_CHUNK: Final = 1 << 14
"""Chunks that hold fewer values, on average, are joined: that costs less then than going through each of them."""
_ROUNDED: Final = frozenset(("date", "timestamp", "timestamptz", "time", "interval", "uuid"))
"""Types to which Arrow converts objects, such as pandas' Timestamps, at a loss without a word, or not at all."""


class Source(abc.ABC):
    """Rows that are read only when it is known which columns of which types are wanted: files."""

    @abc.abstractmethod
    def read(self, schema: Schema, where: str) -> pa.Table:
        """Return the rows as a checked table of just the schema's columns; `RowError` where something does not fit."""


def as_table(schema: Schema, data: Any, where: str) -> pa.Table | None:
    """Return anything that speaks Arrow as a table, not checked yet; None for what does not."""
    if isinstance(data, (list, tuple)):
        return None
    try:
        if type(data).__module__ == "pyarrow._dataset" and hasattr(data, "to_table"):  # no more of it than is wanted
            is_scanner = hasattr(data, "projected_schema")  # which says itself what is
            wanted = {} if is_scanner else {"columns": [n for n in schema.names if n in data.schema.names]}
            data = data.to_table(**wanted)
        return _as_table(schema, data, where)
    except pa.ArrowException as error:
        msg = f"{where}: {type(data).__name__} is not a table of rows: {error}"
        raise RowError(msg) from None


def checked_table(schema: Schema, table: pa.Table, where: str) -> pa.Table:
    """Return the table with just the schema's columns in its order, cast to its types where nothing is lost.

    >>> table = pa.table({"b": pa.array([1, 2], pa.uint8()), "a": pa.array(["x", None], pa.large_string())})
    >>> checked_table(Schema.of({"a": "string", "b": "int64"}), table, "input 'x'").to_pylist()
    [{'a': 'x', 'b': 1}, {'a': None, 'b': 2}]
    """
    given, names = table.schema.names, list(schema.names)
    if given != names:
        if wrong := mismatch(given, schema.names):
            msg = f"{where}: the table has columns {given}, expected {names}: {wrong}"
            raise RowError(msg)
        table = table.select(names)
    columns, found = table.columns, table
    try:
        if not _is_exact(schema, table, columns):
            columns = [_converted_column(f, column, where) for f, column in zip(schema, columns, strict=True)]
            found = pa.Table.from_arrays(columns, names=names)
        for field, column in zip(schema, columns, strict=True):
            if column.null_count and not field.nullable:
                _refuse_null(field, column, where)
        for i, field in _ranged(schema):
            first = 0
            for chunk in map(columns[i].chunk, range(columns[i].num_chunks)):
                _check_range(field, field.dtype, chunk, where, first)
                first += len(chunk)
    except RowError as error:
        row = error.row_index
        error.about(row=None if row is None else _row(table, schema.names, row))
        raise
    return found


def _is_exact(schema: Schema, table: pa.Table, columns: list[pa.ChunkedArray]) -> bool:
    """Return whether columns can be taken as they are: valid ones of just the types, in few chunks."""
    if table.schema.types != _arrow_types(schema):
        return False
    try:
        table.validate(full=True)  # what others made may hold what Arrow forbids; a column's own error says more
    except pa.ArrowException:
        return False
    return not any(map(_is_scattered, columns))


@lru_cache(maxsize=1024)
def _arrow_types(schema: Schema) -> list[pa.DataType]:
    """Return the types of columns that are taken as they are; none where some are looked at value by value."""
    return [] if any(map(_holds_uuids, schema.dtypes)) else [t.arrow for t in schema.dtypes]


@lru_cache(maxsize=1024)
def _ranged(schema: Schema) -> list[tuple[int, Field]]:
    """Return the columns for which Arrow's types hold more than ours, with their places."""
    return [(i, f) for i, f in enumerate(schema) if f.dtype.is_nested or f.dtype.name in _RANGES]


def _row(table: pa.Table, names: Sequence[str], row: int) -> tuple[Any, ...]:
    return tuple([python_value(table.column(n)[row]) for n in names])


def python_value(scalar: Any) -> Any:
    """Return an Arrow value as Python's; where that has none, text that is none as bytes, times as numbers.

    >>> python_value(pa.scalar(2**62, pa.timestamp("us")))
    4611686018427387904
    """
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        if is_arrow_list(scalar.type):
            return [python_value(v) for v in scalar.values]
        if pa.types.is_struct(scalar.type):
            return {f.name: python_value(scalar[i]) for i, f in enumerate(scalar.type)}
        return scalar.as_buffer().to_pybytes() if hasattr(scalar, "as_buffer") else scalar.value


def mismatch(given: list[str], expected: tuple[str, ...], *, more: bool = False) -> str:
    """Return what to do about column names that are not the expected ones, or more than they; "" where they fit.

    >>> mismatch(["origins", "delay", "delay"], ("origin", "delay"))
    "'delay' is there 2 times; 'origin' is missing: did you mean 'origins'?; too many: 'origins': drop or rename"
    >>> mismatch(["x", "delay", "origin"], ("origin", "delay"), more=True)
    ''
    """
    counts = Counter(given)
    others = [n for n in counts if n not in expected]
    wrong = [f"{n!r} is there {k} times" for n, k in counts.items() if k > 1 and (n in expected or not more)]
    wrong += [f"{n!r} is missing: {_advice(n, others)}" for n in expected if n not in counts]
    if others and not more:
        wrong.append(f"too many: {', '.join(map(repr, others))}: drop or rename")
    return "; ".join(wrong)


def _advice(name: str, others: list[str]) -> str:
    near = difflib.get_close_matches(name.lower(), [o.lower() for o in others], n=1)
    similar = [o for o in others if o.lower() in near]
    if similar and similar[0].lower() == name.lower():
        return f"did you mean {similar[0]!r}? Upper and lower case are different here"
    return f"did you mean {similar[0]!r}?" if similar else "add it"


def _as_table(schema: Schema, data: Any, where: str) -> pa.Table | None:  # noqa: PLR0911 - one line a kind
    if isinstance(data, pa.Table):
        return data
    pandas = sys.modules.get("pandas")  # whoever has a frame has imported it
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return _from_pandas(schema, data, where)
    if hasattr(data, "toArrow"):  # Spark's, whose stream of Arrow's has no timestamps with a zone
        return data.toArrow()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data).read_all()
    if hasattr(data, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(data)])
    for method in ("to_arrow_table", "fetch_arrow_table"):  # DuckDB's, of several versions
        if hasattr(data, method):
            table = getattr(data, method)()
            return table if isinstance(table, pa.Table) else pa.table(table)
    return None


def _from_pandas(schema: Schema, frame: Any, where: str) -> pa.Table:
    """Return a frame's columns without its index. What pandas calls missing is NULL, NaN in a NumPy column with it."""
    names = [str(n) for n in frame.columns]
    try:
        columns = [_pandas_column(schema, name, frame.iloc[:, i], where) for i, name in enumerate(names)]
    except RowError as error:
        row = error.row_index
        error.about(row=None if row is None else tuple(frame.iloc[row]))
        raise
    return pa.table(columns, names=names)


def _pandas_column(schema: Schema, name: str, series: Any, where: str) -> pa.Array:
    by_value = series.dtype == object and name in schema and schema.field(name).dtype.name in _ROUNDED
    try:
        if not by_value:
            made = pa.array(series, from_pandas=True)
            if series.dtype != object or not _holds_nan(made):
                return made
            return pa.array(map(_without_missing, series), made.type)  # NaNs of 32 bits, which Arrow takes as they are
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        if name not in schema:
            msg = f"{where}: column {name!r}: {error}"
            raise RowError(msg).about(column=name) from None
    field = schema.field(name)  # a column of objects, perhaps of several types: each has to fit on its own
    check, values = check_of(field.dtype), []
    for row, value in enumerate(series):
        try:
            values.append(checked_value(field, check, _without_missing(value)))
        except BadValueError as bad:
            msg = f"{where}, row {row}: column {bad}"
            raise RowError(msg).about(row_index=row, column=name) from None
    return pa.array(values, field.dtype.arrow)


def _holds_nan(array: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether there is a NaN in an Arrow array, or in the lists in it."""
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, and only tables need it

    while is_arrow_list(array.type):
        array = pc.list_flatten(array)
    if pa.types.is_struct(array.type):
        return any(map(_holds_nan, array.flatten()))
    return bool(pa.types.is_floating(array.type) and pc.any(pc.is_nan(array)).as_py())


def _without_missing(value: Any) -> Any:
    """Return a value from a column of objects with None for NaN, in lists too: to pandas it is what is missing."""
    if hasattr(value, "tolist"):  # NumPy's arrays, which is what lists in frames are, and its numbers
        value = value.tolist() if getattr(value, "ndim", 0) else value
    if isinstance(value, (list, tuple)):
        return [_without_missing(v) for v in value]
    if isinstance(value, dict):
        return {name: _without_missing(v) for name, v in value.items()}
    return None if is_nan(value) else value


def _converted_column(field: Field, column: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """Return a column of the field's type, in few chunks."""
    wanted = field.dtype.arrow
    if column.null_count == len(column):  # nothing in it that could be of a wrong type
        column = pa.chunked_array([pa.nulls(len(column), wanted)])
    given = column.type
    if given != wanted and not _widens(given, field.dtype):
        hint = _hint_for(given, field.dtype)
        msg = f"{where}: column {field.name!r} has Arrow type {given}, expected {wanted}; {hint}"
        raise RowError(msg).about(column=field.name)
    try:
        found = _converted(column, field.dtype)
        return pa.chunked_array([_one(found)]) if _is_scattered(found) else found
    except pa.ArrowException as error:
        row = first_failing(column, lambda c: _converted(c, field.dtype))
        why = str(error).rpartition("Invalid: ")[2]
        msg = f"{where}{'' if row is None else f', row {row}'}: column {field}: {why}"
        raise RowError(msg).about(row_index=row, column=field.name) from None


def _is_scattered(column: pa.ChunkedArray) -> bool:
    """Return whether a column is not in one chunk, or in some large ones."""
    chunks = column.num_chunks
    return bool(chunks != 1 and len(column) < max(1, _LARGE_CHUNK * (chunks - 1)))


def _refuse_null(field: Field, column: pa.ChunkedArray, where: str) -> NoReturn:
    row = column.is_null().to_numpy().argmax()
    nan = " (and what pandas calls missing is one: NaN too)" if field.dtype.name == "float64" else ""
    msg = f"{where}, row {row}: column {field} is NULL: nulls are not allowed here{nan}"
    raise RowError(msg).about(row_index=int(row), column=field.name)


def _hint_for(given: pa.DataType, wanted: DType) -> str:
    if pa.types.is_timestamp(given) and wanted.name == "date":
        return "a date has no time of day: cast it first, as .dt.date does in pandas and Polars, or CAST(x AS DATE)"
    if pa.types.is_timestamp(given) and wanted.name == "timestamp":
        return "convert it to naive UTC first, or let the column be of type timestamptz"
    return (
        "it has no zone: say which"
        if pa.types.is_timestamp(given) and wanted.name == "timestamptz"
        else "cast it first"
    )


def _check_range(  # noqa: PLR0917 - what is checked, and which of all rows it is
    field: Field, dtype: DType, array: pa.Array, where: str, first: int, rows: Any = None
) -> None:
    """Refuse values that are none of ours, of which the first is in row ``first``.

    Of a list's values ``rows`` says in which row each is, from there on.
    """
    limits = _RANGES.get(dtype.name)
    if limits is None:
        if dtype.element is not None:
            values, lengths = list_parts(array)
            of_list = np.arange(len(array)).repeat(lengths)
            _check_range(field, dtype.element, values, where, first, of_list if rows is None else rows[of_list])
        for (_, of), values in zip(dtype.fields, array.flatten() if dtype.fields else (), strict=True):
            _check_range(field, of, values, where, first, rows)
        return
    if len(array) == array.null_count:
        return
    plain = stored(array.drop_null() if array.null_count else array, _DAYS if dtype.name == "date" else _NUMBERS)
    if limits[0] <= np.minimum.reduce(plain) and (limits[1] == INT64_LIMIT or np.maximum.reduce(plain) <= limits[1]):
        return  # of 64 bits, there is nothing above that limit
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, and only tables need it

    numbers = array.view(_INT32 if dtype.name == "date" else _INT64)
    at = truths_of(pc.or_(pc.less(numbers, limits[0]), pc.greater(numbers, limits[1]))).argmax()
    why = _WHY.get(dtype.name, "the years are 1 to 9999")
    text = numbers[at].as_py() if dtype.name in _WHY else array[at : at + 1].cast(pa.string())[0]
    row = first + (at if rows is None else rows[at])
    msg = f"{where}, row {row}: column {field}: {text} is not a valid {dtype} here: overflow ({why})"
    raise RowError(msg).about(row_index=int(row), column=field.name)


def first_failing(column: pa.ChunkedArray, convert: Callable[[pa.ChunkedArray], Any]) -> int | None:
    """Return the first row that makes a conversion fail: the shortest prefix that does ends with it."""

    def fails(length: int) -> bool:
        try:
            convert(column.slice(0, length))
        except pa.ArrowException:
            return True
        return False

    good, bad = 0, len(column)
    if not fails(bad) or fails(0):
        return None
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if fails(middle) else (middle, bad)
    return bad - 1


def _converted(column: pa.ChunkedArray, dtype: DType) -> pa.ChunkedArray:
    column.validate(full=True)  # what others made may hold what Arrow forbids
    return column if column.type == dtype.arrow and not _holds_uuids(dtype) else _cast(column, dtype)


def _holds_uuids(dtype: DType) -> bool:
    """Return whether values are UUIDs, or made of such: text that is checked, and written in one way."""
    if dtype.element is not None:
        return _holds_uuids(dtype.element)
    return dtype.name == "uuid" or (bool(dtype.fields) and any(_holds_uuids(of) for _, of in dtype.fields))


def _cast(column: pa.ChunkedArray, dtype: DType) -> pa.ChunkedArray:
    """Cast, in the steps that Arrow has kernels for; an Arrow exception where a value would be lost."""
    wanted, t = dtype.arrow, pa.types
    if (
        (dtype.name == "uuid" and not t.is_null(column.type))
        or (dtype.is_decimal and t.is_floating(column.type))
        or t.is_interval(column.type)
    ):
        return _one_by_one(column, dtype)
    if dtype.element is not None and is_arrow_list(column.type):
        return pa.chunked_array([_cast_lists(chunk, dtype.element) for chunk in column.chunks], wanted)
    if dtype.fields and t.is_struct(column.type):
        return pa.chunked_array([_cast_structs(chunk, dtype) for chunk in column.chunks], wanted)
    if dtype.is_integer and t.is_floating(column.type):
        return _whole(column).cast(wanted)
    if t.is_dictionary(column.type) or t.is_run_end_encoded(column.type):
        plain = [_plain(chunk, dtype) for chunk in column.chunks]
        return pa.chunked_array(plain, wanted)
    if dtype.is_decimal and t.is_integer(column.type):
        column = column.cast(pa.decimal256(20 + dtype.scale, dtype.scale))  # the digits of any integer
    if dtype.is_decimal and t.is_decimal256(column.type):
        # Arrow divides 256 bits by more than 32 wrongly now and then, so nine places at a time.
        for scale in range(column.type.scale - 9, dtype.scale, -9):
            column = column.cast(pa.decimal256(column.type.precision, scale))
    return column.cast(wanted)


def _cast_lists(chunk: pa.Array, element: DType) -> pa.Array:
    values, lengths = list_parts(chunk)
    null = truths_of(chunk.is_null())
    return list_array(_one(_cast(pa.chunked_array([values]), element)), lengths, null)


def _one_by_one(column: pa.ChunkedArray, dtype: DType) -> pa.ChunkedArray:
    """Return a column's values as rows have them: Arrow has no casts of UUIDs and of days, and rounds floats."""
    check = check_of(dtype)
    try:
        found = [None if v is None else check(v, dtype) for v in column.to_pylist()]
    except (ValueError, ArithmeticError) as error:
        raise pa.ArrowInvalid(str(error)) from None
    return pa.chunked_array([pa.array(found, dtype.arrow)])


def _cast_structs(chunk: pa.Array, dtype: DType) -> pa.Array:
    values = dict(zip([f.name for f in chunk.type], chunk.flatten(), strict=True))
    null = truths_of(chunk.is_null())
    fields = [_one(_cast(pa.chunked_array([values[name]]), of)) for name, of in dtype.fields]
    return struct_array(fields, dtype, null)


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return floats as they are, if they are numbers no larger than those that hold every integer."""
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    column = column.cast(pa.float64())
    if pc.any(pc.is_nan(column)).as_py():
        msg = f"NaN: {NAN_IS_NO_NULL}"
        raise pa.ArrowInvalid(msg)
    largest = pc.max(pc.abs(column)).as_py()
    if largest is not None and largest > EXACT:
        msg = f"{largest} is beyond 2**53, where floats do not hold every integer; cast it first"
        raise pa.ArrowInvalid(msg)
    return column


def _plain(chunk: pa.Array, dtype: DType) -> pa.Array:
    if pa.types.is_run_end_encoded(chunk.type):
        import pyarrow.compute as pc  # noqa: PLC0415 - as above

        return _one(_cast(pa.chunked_array([pc.run_end_decode(chunk)]), dtype))
    values = _one(_cast(pa.chunked_array([chunk.dictionary]), dtype))
    return pa.DictionaryArray.from_arrays(chunk.indices, values).cast(dtype.arrow)


def _one(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; without a copy where it is one."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def _widens(given: pa.DataType, wanted: DType) -> bool:  # noqa: PLR0911 - one line a family
    """Return whether values of an Arrow type may be cast: the same family, no loss (a safe cast checks the values)."""
    t = pa.types
    if t.is_dictionary(given) or t.is_run_end_encoded(given):
        return _widens(given.value_type, wanted)
    if t.is_null(given):
        return True
    if wanted.element is not None:
        return is_arrow_list(given) and _widens(given.value_type, wanted.element)
    if wanted.fields:
        theirs = {f.name: f.type for f in given} if t.is_struct(given) else {}
        fits = len(theirs) == len(wanted.fields) and len(theirs) == given.num_fields
        return fits and all(name in theirs and _widens(theirs[name], of) for name, of in wanted.fields)
    if _is_number(given):
        return wanted.is_integer or wanted.is_decimal or (wanted.name == "float64" and not t.is_decimal(given))
    try:
        family = dtype(given).name
    except SchemaError:
        return False
    return family == wanted.name or (family, wanted.name) == ("string", "uuid")


def _is_number(given: pa.DataType) -> bool:
    """Return whether these are numbers, whole ones perhaps: DuckDB's sums of integers are decimals of scale 0."""
    t = pa.types
    return bool(t.is_integer(given) or t.is_decimal(given) or t.is_floating(given))
