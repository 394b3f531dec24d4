"""Options, profiles and what all tests share."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent / "support"))

# How many examples Hypothesis draws where a test says nothing; those that do are scaled with it (`running.examples`).
# Choose with `--hypothesis-profile=ci` or HYPOTHESIS_PROFILE=ci.
for name, max_examples in {"dev": 5, "ci": 30, "long": 600}.items():
    settings.register_profile(
        name,
        max_examples=max_examples,
        deadline=None,  # two slow seconds on a shared machine are no bug
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run the tests on Spark in one process, so that there is one session, and begin with them, since they take longest.

    Beside it go those that start processes of their own for Spark, a file at a time: largest groups come first.

    (A scheduler of our own, since groups of tests are not kept together by pytest-xdist 3.8 under pytest 9.2.)
    """
    from xdist.scheduler import LoadScopeScheduling

    class OneSpark(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if not file.startswith("tests/spark/"):
                return nodeid
            return file if file.endswith(("test_cluster.py", "test_connect.py", "test_java.py")) else "spark"

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
