"""PySpark's daemon, with what its workers import imported before it forks them.

An error ends a worker, and the next one would import all this anew, for longer than most tests take. Where executors are
processes of their own, and over Spark Connect, workers import for themselves, as users' do.
"""

import pandas  # noqa: F401, ICN001
import pyarrow.compute  # noqa: F401
from pyspark import daemon

import tidemill.renderer.spark.tasks  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
