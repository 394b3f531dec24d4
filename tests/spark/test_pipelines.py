"""Spark's own pipelines reading a view's changes: each run of the command takes what refreshes brought since the last."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from support.elsewhere import QUICK_JAVA

import tidemill as tm

pytest.importorskip("grpc_status", reason="needs tidemill[connect]")
pytest.importorskip("yaml", reason="which spark-pipelines reads its file with")
pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs a shell")

SPEC = """
name: orders
storage: file://{folder}/storage
libraries:
  - glob:
      include: transformations/**
"""
TABLES = """
import tidemill as tm
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.active()
tm.register_changelog(spark)


@dp.table
def order_changes():
    return spark.readStream.format("tidemill_changelog").load("{folder}/changes")


@dp.materialized_view
def totals():
    total = F.expr("sum(CASE WHEN _change = 'insert' THEN amount ELSE -amount END)")
    return spark.read.table("order_changes").groupBy("region").agg(total.alias("total"))
"""
LATEST = """
import tidemill as tm
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.active()
tm.register_changelog(spark)


@dp.temporary_view
def changes():
    return spark.readStream.format("tidemill_changelog").load("{folder}/changes")


dp.create_streaming_table("orders")
dp.create_auto_cdc_flow(
    target="orders",
    source="changes",
    keys=["id"],
    sequence_by=F.expr("2 * _refresh + int(_change = 'insert')"),
    apply_as_deletes=F.expr("_change = 'delete'"),
    except_column_list=["_change", "_refresh"],
    stored_as_scd_type=1,
)
"""


@pytest.fixture
def pipeline(tmp_path):
    (tmp_path / "transformations").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(folder=tmp_path))
    return tmp_path


def refresh(folder, *rows):
    columns = ("id", "region", "amount")
    pq.write_table(pa.Table.from_pylist([dict(zip(columns, r, strict=True)) for r in rows]), folder / "orders.parquet")
    with tm.Views(folder / "state") as views:
        orders = views.source("orders", tm.snapshot(folder / "orders.parquet"), key="id")
        views.view("changes", orders, to=tm.files(folder / "changes"), write="changelog")
        views.refresh()


def run(folder, command="run"):
    """Return what the command says, and its status: 1 behind a run with PySpark 4.3.0, see `completed`."""
    home = Path(pyspark.__file__).parent
    settings = ["spark.sql.catalogImplementation=hive", "spark.driver.memory=1g", "spark.ui.enabled=false"]
    settings += ["spark.sql.shuffle.partitions=2"]
    given = {**os.environ, **QUICK_JAVA, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    whole = [str(home / "bin" / "spark-pipelines"), command, *(part for s in settings for part in ("--conf", s))]
    done = subprocess.run(whole, cwd=folder, env=given, capture_output=True, text=True, check=False, timeout=600)
    return done.stdout + done.stderr, done.returncode


def completed(folder, command="run"):
    """Run the pipeline; the client of PySpark 4.3.0 takes no metrics of sources in Python, and ends with status 1."""
    said, status = run(folder, command)
    assert "Run is COMPLETED" in said, said
    assert status == 0 or "__python_accumulator__" in said, said


def rows(folder, table):
    found = pq.read_table(folder / "spark-warehouse" / table).to_pylist()
    return Counter(tuple(row.values()) for row in found)


def test_a_pipeline_takes_each_refresh_once(pipeline):
    (pipeline / "transformations" / "tables.py").write_text(TABLES.format(folder=pipeline))
    refresh(pipeline, (1, "north", 7), (2, "south", 5))
    completed(pipeline)
    changes = Counter([(1, "north", 7, "insert", 1), (2, "south", 5, "insert", 1)])
    assert rows(pipeline, "order_changes") == changes
    refresh(pipeline, (1, "north", 9), (2, "south", 5), (3, "north", 1))
    completed(pipeline)
    changes += Counter([(1, "north", 7, "delete", 2), (1, "north", 9, "insert", 2), (3, "north", 1, "insert", 2)])
    assert rows(pipeline, "order_changes") == changes
    assert rows(pipeline, "totals") == Counter([("north", 10), ("south", 5)])


def test_a_flow_of_changes_is_taken_up_to_tables_that_merge(pipeline):
    """PySpark alone has none: Delta's and Iceberg's are in jars of their own."""
    (pipeline / "transformations" / "tables.py").write_text(LATEST.format(folder=pipeline))
    refresh(pipeline, (1, "north", 7), (2, "south", 5))
    completed(pipeline, "dry-run")
    said, status = run(pipeline)
    assert status == 1
    assert "AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE" in said, said
