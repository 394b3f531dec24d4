"""Options, profiles and what all tests share."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent / "support"))

settings.register_profile(
    "tidemill",
    max_examples=30 * int(os.environ.get("TIDEMILL_EXAMPLES", "1")),
    deadline=None,  # two slow seconds on a shared machine are no bug
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tidemill")


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
    return request.config.getoption("--engines").split(",")
