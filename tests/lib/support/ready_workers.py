"""PySpark's daemon, with what its workers import imported before it forks them.

An error ends a worker, as a minute without work does, and the next one would import all this anew, for longer than most
tests take. Frozen, it is not looked through by the collection of garbage that PySpark begins after every task, which took
more than the tasks. Where executors are processes of their own, and over Spark Connect, workers do all this, as users' do.
"""

import gc

import pandas  # noqa: F401, ICN001
import pyarrow.parquet  # noqa: F401
import support.running  # noqa: F401 - with Hypothesis, beside functions of tests
from pyspark import daemon

import tidemill.renderer.embedded.compile  # noqa: F401
import tidemill.renderer.spark.keyed_tasks
import tidemill.renderer.spark.live.file_tasks
import tidemill.renderer.spark.row_tasks
import tidemill.renderer.spark.window_tasks  # noqa: F401

if __name__ == "__main__":
    gc.freeze()
    daemon.manager()
