"""Views over tables with a run on Spark, and Spark reading their changelogs."""

import shutil
from collections import Counter

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tidemill as tm
from tidemill.errors import StateError

FEED = {"delta.enableChangeDataFeed": "true"}


def orders(*rows):
    return pa.Table.from_pylist([dict(zip(("id", "region", "amount"), row, strict=True)) for row in rows])


@pytest.fixture
def lake(tmp_path):
    write_deltalake(tmp_path / "orders", orders((1, "north", 7), (2, "south", 5), (3, "north", 2)), configuration=FEED)
    return tmp_path


def rows_of(path):
    return sorted(tuple(row.values()) for row in DeltaTable(path).to_pyarrow_table().to_pylist())


def test_spark_keeps_views_up_to_date(lake, spark):
    def job(aggregate="sum(amount)"):
        views = tm.Views(lake / "state", engine=tm.Spark(spark))
        rows = views.source("orders", tm.delta(lake / "orders"), key="id")
        sums = rows.group_by("region").agg(total=tm.expr(aggregate))
        views.view("sums", sums, to=tm.delta(lake / "sums"), key="region", write="merge")
        return views

    with job() as views:
        assert views.refresh().read == {"orders": 3}
    write_deltalake(lake / "orders", orders((4, "west", 1)), mode="append")
    DeltaTable(lake / "orders").delete("id = 1")
    with job() as views:
        assert views.refresh().views["sums"].way == "merge"
        assert not views.refresh().is_new
    assert rows_of(lake / "sums") == [("north", 2), ("south", 5), ("west", 1)]
    with job("max(amount)") as views:
        with pytest.raises(StateError):  # what runs on Spark takes no other dataflow
            views.refresh()
        views.refresh(full=True)
    assert rows_of(lake / "sums") == [("north", 2), ("south", 5), ("west", 1)]


def refreshed(lake, **options):
    with tm.Views(lake / "state") as views:
        rows = views.source("orders", tm.delta(lake / "orders"), key="id")
        views.view("log", rows, to=tm.files(lake / "log"), write="changelog")
        views.refresh(**options)


def streamed(spark, lake):
    """Have a query with a checkpoint take what there is, and return all that it has written so far."""
    stream = spark.readStream.format("tidemill_changelog").load(str(lake / "log"))
    query = stream.writeStream.format("parquet").option("checkpointLocation", str(lake / "checkpoint"))
    query.trigger(availableNow=True).start(str(lake / "streamed")).awaitTermination()
    return Counter(tuple(row) for row in spark.read.parquet(str(lake / "streamed")).collect())


def test_spark_reads_a_changelog_as_a_batch_and_as_a_stream(lake, spark):
    tm.register_changelog(spark)
    refreshed(lake)
    expected = Counter([(1, "north", 7, "insert", 1), (2, "south", 5, "insert", 1), (3, "north", 2, "insert", 1)])
    batch = spark.read.format("tidemill_changelog").load(str(lake / "log"))
    assert batch.columns == ["id", "region", "amount", "_change", "_refresh"]
    assert Counter(map(tuple, batch.collect())) == expected
    assert streamed(spark, lake) == expected
    assert streamed(spark, lake) == expected  # nothing new
    DeltaTable(lake / "orders").update({"amount": "9"}, predicate="id = 2")
    refreshed(lake)
    expected += Counter([(2, "south", 5, "delete", 2), (2, "south", 9, "insert", 2)])
    write_deltalake(lake / "orders", orders((4, "west", 1)), mode="append")
    refreshed(lake)
    expected += Counter([(4, "west", 1, "insert", 3)])
    assert streamed(spark, lake) == expected
    assert Counter(map(tuple, spark.read.format("tidemill_changelog").load(str(lake / "log")).collect())) == expected
    refreshed(lake, full=["log"])
    with pytest.raises(Exception, match="was begun anew, or merged"):
        streamed(spark, lake)


@pytest.mark.parametrize("refreshes", [1, 4])
def test_a_stream_over_a_changelog_begun_anew_is_refused(lake, spark, refreshes):
    tm.register_changelog(spark)
    for _ in range(2):
        refreshed(lake)
        write_deltalake(lake / "orders", orders((9, "west", 1)), mode="append")
    assert streamed(spark, lake).total() == 4
    shutil.rmtree(lake / "state")
    shutil.rmtree(lake / "log")
    for i in range(refreshes):  # to fewer steps than were read, and to more, whose files are each beyond those
        refreshed(lake)
        write_deltalake(lake / "orders", orders((10 + i, "west", 1)), mode="append")
    with pytest.raises(Exception, match="the changelog is another one than that of which step 2 was read"):
        streamed(spark, lake)


def test_spark_reads_the_changelog_of_a_run_that_merges_older_steps(tmp_path, spark):
    tm.register_changelog(spark)
    flow = tm.Dataflow()
    flow.output("n", flow.input("x", {"k": "string"}).count("n"))
    with flow.start(tm.Embedded(state=str(tmp_path / "state"))) as run:
        run.to_changelog(tmp_path / "log", keep=2)
        for _ in range(8):
            run.insert("x", [("a",)])
            run.advance()
    found = spark.read.format("tidemill_changelog").load(str(tmp_path / "log" / "n"))
    assert found.groupBy("k", "n").sum("diff").where("`sum(diff)` <> 0").collect() == [("a", 8, 1)]
    with pytest.raises(Exception, match="holds no changes yet"):
        spark.read.format("tidemill_changelog").load(str(tmp_path / "state")).collect()
