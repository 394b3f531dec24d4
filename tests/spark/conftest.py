"""One Spark session for all tests that need one; without the extra they are skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.elsewhere import LEAST_WORK, QUICK_JAVA

HERE = Path(__file__).parent

QUICK = {
    "test_explain.py", "test_expressions.py", "test_local_session.py", "test_map_rows.py", "test_operators.py",
    "test_sent_functions.py", "test_state_folders.py", "test_windows_live.py",
}  # fmt: skip
"""Of what there is on Spark, what README's command runs; the other files take long."""
collect_ignore = [
    "on_cluster.py",
    "on_connect.py",
    "on_standalone.py",
]  # programs that tests start in processes of their own

SETTINGS = {
    **LEAST_WORK,
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "America/New_York",  # must not matter
    "spark.python.daemon.module": "support.ready_workers",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark these tests, so that `-m "not spark"` leaves them out; what Spark warns of is not for us to mend.

    Most take long.
    """
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.spark)
            if item.path.name not in QUICK:
                item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark", reason="needs tidemill[spark]")
    import tidemill as tm

    support = str(HERE.parent / "lib")
    with pytest.MonkeyPatch.context() as patch:  # for the processes in which functions of tests run
        patch.setenv("PYTHONPATH", support, prepend=os.pathsep)
        for name, value in QUICK_JAVA.items():
            patch.setenv(name, value)
        session = tm.local_spark("local[2]", **SETTINGS)
    yield session
    session.stop()
