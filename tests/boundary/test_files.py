"""Parquet files, CSV and JSON lines as input; errors name file, row and column."""

import decimal
import gzip
import json
import re

import pyarrow as pa
import pytest
from pyarrow import parquet
from support.running import start
from support.tables import read_back

import tidemill as tm
from tidemill.boundary import files
from tidemill.boundary.files import read_csv, read_json, read_parquet
from tidemill.errors import RowError, SchemaError
from tidemill.expressions.schema import Schema

AB = Schema.of({"a": "int64 not null", "b": "string"})


@pytest.fixture
def write(tmp_path):
    def write(text, name="rows.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize(
    ("text", "options", "rows"),
    [
        ("a,b\n1,x\n2,\n", {}, [(1, "x"), (2, None)]),
        ('z,b,a\n9,"",1\n9,"x\ny",2', {}, [(1, ""), (2, "x\ny")]),
        ("\ufeffa,b\r\n1,x\r\n\r\n", {}, [(1, "x")]),
        ("a;b\n1;x,y\n", {"delimiter": ";"}, [(1, "x,y")]),
        ("1,x\n2,y\n", {"header": False}, [(1, "x"), (2, "y")]),
        ("x,1\n", {"header": False, "schema": {"b": "string", "a": "int32"}}, [(1, "x")]),
        ('a,b\n1,NA\n2,"NA"\n3,\n', {"nulls": "NA"}, [(1, None), (2, "NA"), (3, "")]),
        ("a,b\n", {}, []),
        (gzip.compress(b"a,b\n1,x\n", mtime=0), {}, [(1, "x")]),
    ],
    ids=repr,
)
def test_csv(write, text, options, rows):
    path = write(text, "rows.csv.gz" if isinstance(text, bytes) else "rows.csv")
    assert read_back(AB, read_csv(path, **options)) == rows
    assert read_back(AB, read_csv([str(path), path], **options)) == rows * 2


def test_csv_of_one_column_has_nulls_as_empty_lines(write):
    assert read_back(Schema.of({"i": "int64"}), read_csv(write("i\n1\n\n2\n"))) == [(1,), (None,), (2,)]


@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        ("int64", "x", "invalid value 'x'"),
        ("int64", "1.0", "invalid value '1.0'"),
        ("int64", str(2**63), "invalid value"),
        ("int64", str(-(2**63)), "is not a valid int64 here: overflow"),
        ("int32", str(2**31), "invalid value"),
        ("float64", "1,5", "Expected 2 columns, got 3"),
        ("bool", "maybe", "invalid value 'maybe'"),
        ("date", "2024-02-30", "invalid value '2024-02-30'"),
        ("timestamp", "2024-02-29T00:00:00Z", "expected no zone offset"),
        ("timestamp", "2024-02-29 00:00:00.1234567", "invalid value"),
        ("decimal(5,2)", "1.255", "would cause data loss"),
        ("decimal(5,2)", "1000", "does not fit in precision 5"),
        ("decimal(38,2)", "9" * 38, "does not fit in precision 38"),
        ("decimal(38,0)", str(2**128 + 1), "does not fit in precision 38"),
        ("decimal(38,0)", "9" * 90, "a number of 90 characters"),
        ("int64 not null", "", "is NULL: nulls are not allowed here"),
    ],
)
def test_csv_values_that_do_not_fit(write, dtype, value, text):
    good = {"bool": "true", "date": "2024-02-29", "timestamp": "2024-02-29"}.get(dtype, "1")
    path = write(f"n,c\n1,{good}\n2,{good}\n3,{value}\n4,{good}\n")
    column = "" if "columns" in text else f"column c: {dtype}.*"
    with pytest.raises(
        RowError, match=f"input 'x', file '.*rows.csv', row 2: {re.escape(column)[:-4]}.*{re.escape(text)}"
    ):
        read_back(Schema.of({"c": dtype}), read_csv(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Empty CSV file"),
        ("A,b\n1,x\n", r"it has the columns \['A', 'b'\], expected \['a', 'b'\]: 'a' is missing: did you mean 'A'\?"),
        ("a,b,a\n1,x,2\n", "'a' is there 2 times"),
        (b"a,b\n1,x\n2,\xff\n", "row 1: column b: string: invalid UTF8 data"),
    ],
)
def test_csv_files_that_do_not_fit(write, text, message):
    with pytest.raises(RowError, match=f"file '.*rows.csv'.*{message}"):
        read_back(AB, read_csv(write(text)))


def test_parquet(tmp_path):
    for i in (2, 1):
        table = pa.table(
            {"z": [0, 0], "b": pa.array([f"x{i}", None], pa.large_string()), "A": pa.array([i, 9], pa.int8())}
        )
        parquet.write_table(table, tmp_path / f"{i}.parquet")
    rows = [(1, "x1"), (9, None), (2, "x2"), (9, None)]
    assert read_back(AB, read_parquet(tmp_path / "*.parquet", columns={"a": "A"})) == rows
    assert read_back(AB, read_parquet((tmp_path / f"{i}.parquet" for i in (1, 2)), columns={"a": "A"})) == rows
    with pytest.raises(RowError, match=r"file '.*1.parquet': it has the columns .*'a' is missing: did you mean 'A'"):
        read_back(AB, read_parquet(tmp_path / "1.parquet"))
    with pytest.raises(RowError, match=r"columns= renames \['q'\], which are not among the input's columns"):
        read_back(AB, read_parquet(tmp_path / "1.parquet", columns={"q": "A"}))
    with pytest.raises(SchemaError, match="expected a dict"):
        read_parquet(tmp_path / "1.parquet", columns=["a"])  # type: ignore[arg-type]


def test_parquet_that_does_not_fit(tmp_path):
    good, bad, odd = (tmp_path / f"{n}.parquet" for n in ("good", "bad", "odd"))
    parquet.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), good)
    parquet.write_table(pa.table({"a": [1, None], "b": ["x", "y"]}), bad)
    odd.write_bytes(b"no parquet at all")
    with pytest.raises(RowError, match=r"input 'x', file '.*bad.parquet', row 1: column a: int64 not null is NULL"):
        read_back(AB, read_parquet([good, bad]))
    with pytest.raises(RowError, match=r"file '.*odd.parquet': .*Parquet"):
        read_back(AB, read_parquet(odd))


def test_paths_that_are_no_files(tmp_path):
    with pytest.raises(RowError, match=r"input 'x': no file '.*none\*.csv'"):
        read_back(AB, read_csv(tmp_path / "none*.csv"))
    with pytest.raises(RowError, match="is a folder: say which files"):
        read_back(AB, read_csv(tmp_path))
    with pytest.raises(RowError, match="there are no Parquet files in it"):
        read_back(AB, read_parquet(tmp_path))
    with pytest.raises(SchemaError, match="no path given"):
        read_parquet([])
    with pytest.raises(SchemaError, match="expected one character"):
        read_csv("x", delimiter=", ")


def test_a_file_whose_name_looks_like_a_pattern(write):
    assert read_back(AB, read_csv(write("a,b\n1,x\n", "rows[1].csv"))) == [(1, "x")]


def test_files_in_a_run(engine, write):
    flow = tm.Dataflow()
    flow.output("x", flow.input("x", AB))
    flow.output("y", flow.input("y", AB, key="a"))
    first, second = write("a,b\n1,x\n2,y\n", "1.csv"), write("b,a\nz,2\n", "2.csv")
    with start(flow, engine) as run:
        run.insert("x", read_csv([first, second]))
        run.upsert("y", read_csv([first, second]))
        run.advance()
        assert list(run.snapshot("x")) == [(1, "x"), (2, "y"), (2, "z")]
        assert list(run.snapshot("y")) == [(1, "x"), (2, "z")]
        run.delete("x", read_csv(second))
        run.delete("y", read_csv(write("a\n2\n", "3.csv")))  # by key
        bad = write("a,b\nq,x\n", "4.csv")
        with pytest.raises(
            RowError, match=r"Input 'x' \(.*\), file '.*4.csv', row 0: column a: int64 not null: invalid"
        ):
            run.insert("x", read_csv([first, bad]))
        run.advance()
        assert list(run.snapshot("x")) == [(1, "x"), (2, "y")]
        assert list(run.snapshot("y")) == [(1, "x")]


def test_zeros_behind_the_places_of_a_decimal_are_no_loss(write):
    """Arrow says of some numbers that leaving zeros out loses something (2^64 / 10 with 15 places)."""
    path = write("price\n1844674407370955161.500000000000000\n")
    prices = Schema.of({"price": "decimal(38,1)"})
    assert read_back(prices, read_csv(path)) == [(decimal.Decimal("1844674407370955161.5"),)]


# -- JSON lines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('{"a":1,"b":"x"}\n{"b":null,"a":2,"z":[{}]}\n', [(1, "x"), (2, None)]),
        ('\ufeff{"a":1}\r\n\r\n{"a":2,"b":"\\n"}', [(1, None), (2, "\n")]),
        ("", []),
        ("\n \n", []),
        (gzip.compress(b'{"a":1}', mtime=0), [(1, None)]),
    ],
    ids=repr,
)
def test_json(write, text, rows):
    path = write(text, "rows.jsonl.gz" if isinstance(text, bytes) else "rows.jsonl")
    assert read_back(AB, read_json(path)) == rows
    assert read_back(AB, read_json([str(path), path])) == rows * 2


def test_values_in_json(write):
    schema = Schema.of({
        "day": "date", "at": "timestamp", "time": "time", "id": "uuid", "money": "decimal(9,2)", "share": "float64",
        "days": "list<date>", "stop": "struct<code: string, day: date>", "flag": "bool",
    })  # fmt: skip
    line = {
        "day": "2013-01-02", "at": "2013-01-02T05:00:00.5+02:00", "time": "06:30:00", "money": "1.50", "share": 1,
        "id": "6F9619FF-8B86-D011-B42D-00C04FC964FF", "days": ["2013-01-03", None], "flag": True,
        "stop": {"code": "JFK", "day": "2013-01-04", "gate": "B1"},
    }  # fmt: skip
    found = read_back(schema, read_json(write(json.dumps(line) + "\n" + json.dumps({"money": 2.5, "stop": {}}))))
    assert [str(value) for value in found[0]] == [
        "2013-01-02", "2013-01-02 03:00:00.500000", "06:30:00", "6f9619ff-8b86-d011-b42d-00c04fc964ff", "1.50", "1.0",
        "(datetime.date(2013, 1, 3), None)", "('JFK', datetime.date(2013, 1, 4))", "True",
    ]  # fmt: skip
    assert [*map(str, found[1])] == ["None", "None", "None", "None", "2.50", "None", "None", "(None, None)", "None"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a":1}\n\n{"a":2}\n{"a":"3"}\n', "row 2: .*changed from number to string"),
        ('{"a":1}\n{"a":2.5}\n', "row 1: .*int64, couldn't parse:2.5"),
        ('{"a":1}\n{"a":2', "row 1: "),
        ('{"a":1}\n{"b":"x"}\n', "row 1: column a: int64 not null"),
        ('{"a":1}\n[2]\n', "row 1: .*from object to array"),
    ],
)
def test_json_that_is_refused(write, text, said):
    path = write(text, "rows.jsonl")
    with pytest.raises(RowError, match=f"(?s)file {re.escape(repr(str(path)))}, {said}") as raised:
        read_back(AB, read_json(path))
    assert raised.value.row_index == int(said[4])


def test_json_of_more_blocks_than_one(write, monkeypatch):
    monkeypatch.setattr(files, "_LARGEST_BLOCK", 100)
    path = write("".join(f'{{"a":{i}}}\n' for i in range(500)), "rows.jsonl")
    assert read_back(AB, read_json(path)) == [(i, None) for i in range(500)]
    path = write("".join(f'{{"a":{i}}}\n' for i in range(500)) + '{"a":"x"}', "rows.jsonl")
    with pytest.raises(RowError, match="row 500: "):
        read_back(AB, read_json(path))
