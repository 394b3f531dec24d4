"""Changelogs for Spark: what registers them as a data source."""

from __future__ import annotations

from typing import Any


def register_changelog(spark: Any) -> None:
    """Have a Spark session read changelogs: ``spark.read.format("tidemill_changelog").load(folder)``, and as a stream.

    ``folder`` is one that a view is written to (``to=tm.files(folder), write="changelog"``), or that of an output in
    that of `Run.to_changelog`. A batch is all of it. A stream reads each refresh, or step, exactly once in a query with
    a checkpoint: its offsets are their numbers. A changelog that was begun anew, or merged further than the stream had
    read, is refused. Spark's workers have to see the folder, and need tidemill. Needs
    ``pip install 'tidemill[spark]'``.
    """
    from tidemill.renderer.spark.changelog_source import ChangelogSource  # noqa: PLC0415 - PySpark may not be there

    spark.dataSource.register(ChangelogSource)
