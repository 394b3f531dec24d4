"""Files of flights that arrive in a folder, read by Spark's Structured Streaming: averages kept up to date.

Each file is an epoch. Kill `python examples/streaming_flights.py FOLDER` at any moment and start it again: Spark
delivers again what may have got lost, and the run passes over what it has committed, as if nothing had happened.
"""

import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq

import tidemill as tm


def build() -> tm.Dataflow:
    """Return the dataflow: flights in; how many from each airport, and how late, out."""
    flow = tm.Dataflow("streaming flights")
    flights = flow.input("flights", {"origin": "string", "delay": "int64"})
    flow.output("by_origin", flights.group_by("origin").agg(n=tm.count(), late=tm.avg("delay")), changes=False)
    return flow


def take(folder: str) -> None:
    """Take the files that have arrived and were not taken yet, one an epoch."""
    spark = tm.local_spark("local[1]", **{"spark.ui.enabled": "false", "spark.log.level": "OFF"})
    with build().start(tm.Spark(spark, state=f"{folder}/state")) as run:
        run.to_changelog(f"{folder}/changes")
        run.on_step(lambda step: print("epoch", step.number, flush=True))
        files = spark.readStream.schema("origin string, delay bigint").option("maxFilesPerTrigger", 1)
        query = files.parquet(f"{folder}/arriving").writeStream.option("checkpointLocation", f"{folder}/checkpoint")
        query.trigger(availableNow=True).foreachBatch(run.foreach_batch("flights")).start().awaitTermination()


if __name__ == "__main__":
    where = sys.argv[1] if sys.argv[1:] else "streaming_flights"
    if not Path(where, "arriving").exists():  # have two days arrive
        shutil.copytree(Path(__file__).parent / "data" / "flights", f"{where}/arriving")
    take(where)
    print(pq.read_table(f"{where}/changes/by_origin").to_pandas())
