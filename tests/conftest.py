"""Options, profiles and what all tests share."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "lib"))
sys.path.append(str(Path(__file__).parents[1]))  # last: for benchmarks, not for what is installed

import support.profiles  # noqa: E402, F401 - Hypothesis' profiles

BESIDE = (
    "test_cluster.py", "test_connect.py", "test_demo_on_spark.py", "test_java.py", "test_pipelines.py",
    "test_spark_notebook.py", "test_standalone.py",
)  # fmt: skip


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run the tests on Spark in one process, so that there is one session, and begin with them, since they take longest.

    Beside it go those that start processes of their own for Spark, and the demo, which would keep the session busy for
    long: as one group, too, since the largest come first, and all other tests are groups of one. A file with one test, of
    two minutes, would come among these, and could be all that is left to do for one process at the end.

    (A scheduler of our own, since groups of tests are not kept together by pytest-xdist 3.8 under pytest 9.2.)
    """
    from xdist.scheduler import LoadScopeScheduling

    class OneSpark(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if not file.startswith("tests/spark/"):
                return nodeid
            return "beside Spark" if file.endswith(BESIDE) else "spark"

    return OneSpark(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--engines", default="reference,embedded", help="engines to test, separated by commas")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes ``engine`` is run on each of them."""
    if "engine" in metafunc.fixturenames:
        names = metafunc.config.getoption("--engines").split(",")
        metafunc.parametrize("engine", names)


@pytest.fixture(scope="session")
def engines(request: pytest.FixtureRequest) -> list[str]:
    """The engines under test, for tests that compare them."""
    names: str = request.config.getoption("--engines")
    return names.split(",")


@pytest.fixture
def python_handles_ctrl_c():
    """Also where who started the tests had it ignored, as shells do in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
