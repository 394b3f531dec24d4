"""Folders with hive partitions, Arrow's datasets, and URLs that fsspec opens, as rows."""

import datetime as dt

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import parquet

import tidemill as tm
from tidemill.errors import RowError

DAYS = {"day": "date", "shop": "string", "v": "int64"}
ROWS = [
    (dt.date(2026, 3, 1), "north", 1),
    (dt.date(2026, 3, 1), "south", 2),
    (dt.date(2026, 3, 2), "north", 3),
]


def read(schema, rows, **options):
    flow = tm.Dataflow("read")
    flow.output("x", flow.input("x", schema, **options))
    with flow.start() as run:
        run.insert("x", rows)
        run.advance()
        return sorted(run.snapshot("x"))


@pytest.fixture
def folder(tmp_path):
    columns = [pa.array(c) for c in zip(*ROWS, strict=True)]
    table = pa.table([*columns, pa.array([True] * 3)], names=["day", "shop", "v", "more"])
    ds.write_dataset(table, tmp_path / "in", format="parquet", partitioning=["day"], partitioning_flavor="hive")
    return tmp_path / "in"


def test_what_paths_say_has_the_inputs_types(folder):
    assert (folder / "day=2026-03-01").is_dir()
    assert read(DAYS, tm.read_parquet(folder)) == ROWS
    assert read(DAYS, tm.read_parquet(f"file://{folder}")) == ROWS
    assert read({"day": "string", "v": "int64"}, tm.read_parquet(folder))[0] == ("2026-03-01", 1)
    assert read({"date": "date", "n": "int64"}, tm.read_parquet(folder, columns={"date": "day", "n": "v"}))[0] == (
        dt.date(2026, 3, 1),
        1,
    )
    assert read({"v": "int64"}, tm.read_parquet(folder)) == [(1,), (2,), (3,)]


def test_a_folder_without_partitions_and_files_beside(folder, tmp_path):
    plain = tmp_path / "plain"
    plain.mkdir()
    for i in range(3):
        parquet.write_table(pa.table({"v": [i], "w": [i]}), plain / f"{i}.parquet")
    assert read({"v": "int64"}, tm.read_parquet(plain)) == [(0,), (1,), (2,)]
    assert read({"v": "int64"}, tm.read_parquet([plain, folder])) == [(0,), (1,), (1,), (2,), (2,), (3,)]


def test_a_folder_that_does_not_fit_is_refused(folder, tmp_path):
    with pytest.raises(RowError, match=r"file '.*in': it has the columns .* 'volume' is missing"):
        read({"volume": "int64"}, tm.read_parquet(folder))
    with pytest.raises(RowError, match="'2026-03-01' as scalar of type int64"):
        read({"day": "int64", "v": "int64"}, tm.read_parquet(folder))
    with pytest.raises(RowError, match="column .v. has Arrow type int64, expected bool"):
        read({"v": "bool"}, tm.read_parquet(folder))


def test_a_dataset(folder):
    typed = ds.partitioning(pa.schema([("day", pa.date32())]), flavor="hive")
    dataset = ds.dataset(folder, partitioning=typed)
    assert read(DAYS, dataset) == ROWS  # what else it has is not read
    assert read({"v": "int64"}, dataset.filter(ds.field("v") > 1)) == [(2,), (3,)]
    with pytest.raises(RowError, match="'w' is missing"):
        read({"w": "int64"}, dataset)


def test_urls_without_fsspec(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(RowError, match=r"'memory://in/\*.parquet' is a URL, which fsspec opens: pip install fsspec"):
        read({"v": "int64"}, tm.read_parquet("memory://in/*.parquet"))


def test_urls():
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for i in range(3):
        with memory.open(f"/in/{i}.parquet", "wb") as file:
            parquet.write_table(pa.table({"v": [i], "w": ["x"]}), file)
    with memory.open("/in/a.csv", "wb") as file:
        file.write(b"w,v\nx,7\ny,8\n")
    assert read({"v": "int64"}, tm.read_parquet("memory://in/*.parquet")) == [(0,), (1,), (2,)]
    assert read({"v": "int64"}, tm.read_parquet("memory://in/1.parquet")) == [(1,)]
    assert read({"v": "int64", "w": "string"}, tm.read_csv("memory://in/a.csv")) == [(7, "x"), (8, "y")]
    with memory.open("/in/a.jsonl", "wb") as file:
        file.write(b'{"v": 7}\n{"v": "8"}')
    with pytest.raises(RowError, match="file 'memory:///in/a.jsonl', row 1: .* string"):
        read({"v": "int64"}, tm.read_json("memory://in/*.jsonl"))
    with pytest.raises(RowError, match="no file 'memory://in/none.csv'"):
        read({"v": "int64"}, tm.read_csv("memory://in/none.csv"))
    with pytest.raises(RowError, match=r"file 'memory://in/1.parquet': it has the columns .* 'z' is missing"):
        read({"z": "int64"}, tm.read_parquet("memory://in/1.parquet"))
    with pytest.raises(RowError, match="'nothing://x' cannot be opened"):
        read({"z": "int64"}, tm.read_parquet("nothing://x"))


def test_a_folder_with_partitions_at_a_url():
    fsspec = pytest.importorskip("fsspec")
    for day in (1, 2):
        with fsspec.open(f"memory://lake/day=2026-03-0{day}/1.parquet", "wb") as file:
            parquet.write_table(pa.table({"v": [day]}), file)
    rows = [(dt.date(2026, 3, 1), 1), (dt.date(2026, 3, 2), 2)]
    assert read({"day": "date", "v": "int64"}, tm.read_parquet("memory://lake")) == rows
    like = tm.Dataflow().input("x", like=tm.read_parquet("memory://lake/")).schema
    assert str(like) == "(v: int64, day: string)"
    with pytest.raises(RowError, match="'memory://lake' is a folder: say which files, as in 'memory://lake/\\*'"):
        read({"v": "int64"}, tm.read_csv("memory://lake"))


def test_a_file_at_a_url_is_not_looked_at_for_links(monkeypatch):
    """Over HTTP a file whose text has links is a folder to fsspec, which reads all of it to know that."""
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://site/a.csv", "wb") as file:
        file.write(b"v\n7\n")
    monkeypatch.setattr(type(fsspec.filesystem("memory")), "isdir", lambda *_: True)
    assert read({"v": "int64"}, tm.read_csv("memory://site/a.csv")) == [(7,)]


def test_a_file_at_a_url_is_read_without_threads(monkeypatch):
    """Threads of Arrow's that let go of a Python file while the process ends had it aborted, with exit code 134."""
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://threads/1.parquet", "wb") as file:
        parquet.write_table(pa.table({"v": [1]}), file)
    used, reading = [], parquet.ParquetFile.read

    def watched(self, **options):
        used.append(options["use_threads"])
        return reading(self, **options)

    monkeypatch.setattr(parquet.ParquetFile, "read", watched)
    assert read({"v": "int64"}, tm.read_parquet("memory://threads/1.parquet")) == [(1,)]
    assert used == [False]
