"""The Spark session: a local one for those who have none, and the settings that a dataflow's meaning depends on."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tidemill.errors import EngineError
from tidemill.renderer.spark.java import java_home

LEAST: Final = 4
"""The least version of Spark, whose API this is written to."""


class _Setting(NamedTuple):
    """The value that a setting has to have, why, and a pattern of others that will do."""

    wanted: str
    why: str
    fits: str = ""


SETTINGS: Final = {
    "spark.sql.ansi.enabled": _Setting("true", "overflow and division by zero are errors only then"),
    "spark.sql.parser.escapedStringLiterals": _Setting("false", "backslashes in text would mean something else"),
    "spark.sql.decimalOperations.allowPrecisionLoss": _Setting("true", "decimals would get other types"),
    "spark.sql.retainGroupColumns": _Setting("true", "groups would lose their keys"),
    "spark.sql.execution.arrow.maxRecordsPerBatch": _Setting(
        "10000", "PySpark makes no DataFrame of a table without a limit", r"[1-9]\d*"
    ),
}
"""Settings that have to have a value, and why.

Others are made harmless where they would matter: the session's time zone where expressions are written for Spark,
Arrow's types where batches reach executors, how files are read and written where state is.
"""
SETTINGS_OF_FILES: Final = {
    "spark.sql.parquet.datetimeRebaseModeInWrite": _Setting(
        "CORRECTED", "dates before 1582 would be others in files of state"
    ),
}
"""The same for runs that have executors write their state."""


def check_session(spark: Any, *, files: bool = False) -> None:
    """Refuse a session of a Spark that is too old, or with settings under which it means something else.

    With ``files``, also of which executors would write the files of a run's state otherwise. Nothing is set here.
    """
    if int(spark.version.partition(".")[0]) < LEAST:
        server = "the server of Spark Connect" if is_connected(spark) else "the session"
        msg = f"{server} has Spark {spark.version}: expected {LEAST}.0 or later"
        raise EngineError(msg)
    if is_connected(spark) and not is_remote():
        msg = (
            "a session of Spark Connect, but this process' PySpark is not set up for it: make the session by "
            "SparkSession.builder.remote(...), before any other"
        )
        raise EngineError(msg)
    for name, (wanted, why, fits) in (SETTINGS | (SETTINGS_OF_FILES if files else {})).items():
        found = str(spark.conf.get(name, wanted))
        if not re.fullmatch(fits or wanted, found, re.IGNORECASE):
            msg = (
                f"the session has {name}={found}: expected {wanted}, since {why}; spark.conf.set({name!r}, {wanted!r})"
            )
            raise EngineError(msg)


def is_connected(what: Any) -> bool:
    """Return whether a session, or a DataFrame of it, is one of Spark Connect, whose server is another process."""
    return any(kind.__module__.startswith("pyspark.sql.connect.") for kind in type(what).__mro__)


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
