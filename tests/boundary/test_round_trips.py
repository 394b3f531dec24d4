"""Any schema and rows through each boundary are what they were as tuples."""

import json

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from pyarrow import csv, parquet
from support.running import examples, start
from support.tables import VALUES, Array, Stream, batches, read_back, table_of

import tidemill as tm
from tidemill.boundary.files import read_csv, read_json, read_parquet
from tidemill.boundary.results import Rows
from tidemill.boundary.values import NAN


def dictionaries(table):
    plain = (pa.types.is_binary, pa.types.is_list)
    columns = [c if any(p(c.type) for p in plain) else c.dictionary_encode() for c in table.columns]
    return pa.table(columns, names=table.column_names)


def in_chunks(table):
    return pa.concat_tables([table.slice(i, 1) for i in range(len(table))]) if len(table) else table


def wide_text(table):
    views = {pa.string(): pa.string_view(), pa.binary(): pa.large_binary()}
    return table.cast(pa.schema([(f.name, views.get(f.type, f.type)) for f in table.schema]))


IN = {
    "table": lambda t: t,
    "columns in another order": lambda t: t.select(t.column_names[::-1]),
    "chunks": in_chunks,
    "dictionaries": dictionaries,
    "views and large types": wide_text,
    "record batch": lambda t: pa.RecordBatch.from_pylist(t.to_pylist(), t.schema),
    "reader": lambda t: in_chunks(t).to_reader(),
    "stream": Stream,
    "array": Array,
    "struct column": lambda t: t.to_struct_array(),
    "polars": pl.from_arrow,
    "duckdb": lambda t: duckdb.sql("from t"),
    "duckdb query": lambda t: duckdb.connect().execute("select * from t"),
    "dicts": lambda t: t.to_pylist(),
}


@pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result")  # DuckDB's advice to use its relations
@pytest.mark.parametrize("boundary", IN)
def test_in(boundary):
    @examples(15)
    @given(batches())
    def check(batch):
        schema, rows = batch
        assert repr(read_back(schema, IN[boundary](table_of(batch)))) == repr(rows)

    check()


def rows_of(batch):
    schema, rows = batch
    once = list(dict.fromkeys(rows))
    return Rows(schema, table_of((schema, once)), np.ones(len(once), np.int64), None)


OUT = {
    "themselves": lambda r: r,
    "arrow": lambda r: r.to_arrow(),
    "polars": lambda r: r.to_polars(),
    "capsule to arrow": pa.table,
    "capsule to polars": pl.DataFrame,
    "capsule to duckdb": lambda r: duckdb.sql("from r"),
}


@pytest.mark.parametrize("boundary", OUT)
def test_out_and_in_again(boundary):
    @examples(15)
    @given(batches())
    def check(batch):
        schema, rows = batch
        given = rows_of(batch)
        assert repr(read_back(schema, OUT[boundary](given))) == repr(list(given))
        assert len(given) == len(set(rows))

    check()


@examples(15)
@given(batches())
def test_pandas_out_and_in_again(batch):
    """But for the NaNs of floats, which come back as NULL: to pandas both are missing values."""
    schema, _ = batch
    given = rows_of(batch)
    if any(v is NAN for row in given for v in row):
        schema = tm.Schema.of([(f.name, f.dtype) for f in schema])
    found = read_back(schema, given.to_pandas())
    assert repr(found) == repr([tuple(map(without_nan, row)) for row in given])


def without_nan(value):
    """NULL for NaN, in lists too."""
    return tuple(map(without_nan, value)) if isinstance(value, tuple) else None if value is NAN else value


@examples(15)
@given(batches())
def test_parquet(tmp_path_factory, batch):
    schema, rows = batch
    path = tmp_path_factory.mktemp("parquet") / "rows.parquet"
    parquet.write_table(table_of(batch), path)
    assert repr(read_back(schema, read_parquet(path))) == repr(rows)


TEXT = [t for t in VALUES if t != "binary" and not t.startswith("list")]


@examples(15)
@given(batches(TEXT))
def test_csv(tmp_path_factory, batch):
    schema, rows = batch
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    csv.write_csv(table_of(batch), path)
    assert repr(read_back(schema, read_csv(path))) == repr(rows)


@examples(15)
@given(batches([t for t in VALUES if t != "binary"]))
def test_json(tmp_path_factory, batch):
    schema, rows = batch
    path = tmp_path_factory.mktemp("json") / "rows.jsonl"
    lines = [json.dumps(dict(zip(schema.names, row, strict=True)), default=str) for row in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert repr(read_back(schema, read_json(path))) == repr(rows)


@examples(15)
@given(batches(TEXT))
def test_csv_written_by_polars(tmp_path_factory, batch):
    schema, rows = batch
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    pl.DataFrame(table_of(batch)).write_csv(path)
    assert repr(read_back(schema, read_csv(path))) == repr(rows)


@examples(15)
@given(batches())
def test_through_a_run(engine, batch):
    schema, rows = batch
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", schema))
    with start(flow, engine) as run:
        run.insert("x", table_of(batch))
        run.insert("x", rows)
        run.advance()
        found = run.snapshot("x")
        run.delete("x", found)
        run.advance()
        assert len(run.snapshot("x")) == 0
    assert sorted(map(repr, found)) == sorted(map(repr, rows * 2))
