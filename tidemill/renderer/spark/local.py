"""A local Spark session for those who have none."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Final

from pyspark.sql import SparkSession

from tidemill.renderer.spark.java import java_home

_DEFAULTS: Final = {
    # Where PySpark notes for its errors which line made a column, each costs a dozen calls to Java more. Columns of a
    # step are made by tidemill, whose errors say where the user's operator is.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""Settings of a session where its user says nothing of them."""


def active_session() -> SparkSession | None:
    """Return the session this thread uses, or None."""
    found: SparkSession | None = SparkSession.getActiveSession()
    return found


def local_session(master: str, settings: Mapping[str, str]) -> SparkSession:
    """Return the active session, or a new one with these settings. See ``tidemill.local_spark``."""
    active = active_session()
    if active is not None:
        return active
    home = java_home()
    # What Spark is started with; this process' own environment is as before once it runs.
    environment = {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    if home is not None:
        environment["JAVA_HOME"] = home
    builder = SparkSession.builder.master(master).appName("tidemill")
    for name, value in session_settings(settings).items():
        builder = builder.config(name, value)
    with _environment(environment):
        return builder.getOrCreate()


def session_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return a new session's settings by Spark's names: these, and the defaults for others."""
    return _DEFAULTS | {name if "." in name else name.replace("_", "."): value for name, value in given.items()}


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
